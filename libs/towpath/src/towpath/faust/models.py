"""Records: typed values of topics and tables, written as classes.

::

    class PageView(faust.Record):
        id: str
        user: str = "anonymous"

A record is a dataclass whose JSON form is an object of its fields. Types are always checked when a record is read, also
in nested records, lists and dicts; with ``validation=True`` also when one is made in code. On the class a field is a
:class:`FieldDescriptor` (``PageView.id``), which is what ``group_by`` takes.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar, dataclass_transform

import msgspec

from towpath.faust.errors import UnsupportedFaustFeatureError, ValidationError

SelfT = TypeVar("SelfT", bound="Record")

_ACCEPTED = frozenset(
    {"isodates", "coerce", "decimals", "abstract", "include_metadata", "allow_blessed_key", "namespace"}
)
"""Class options that change nothing here: types are always converted by their annotations, no metadata is written."""


@dataclasses.dataclass(frozen=True)
class FieldDescriptor:
    """A field of a record class, as a name for ``group_by`` and the like."""

    model: type[Record]
    field: str

    def getattr(self, record: Any) -> Any:
        """The field's value in a record."""
        return getattr(record, self.field)

    @property
    def ident(self) -> str:
        """``Model.field``."""
        return f"{self.model.__name__}.{self.field}"


class _RecordType(type):
    """Gives :class:`FieldDescriptor` for a field asked of the class; instances have the value."""

    def __getattr__(cls, name: str) -> Any:
        # While dataclass() looks for defaults, the class has no fields of its own yet.
        if "__dataclass_fields__" in cls.__dict__ and name in cls.__dict__["__dataclass_fields__"]:
            return FieldDescriptor(cls, name)  # type: ignore[arg-type]  # only Record has this metaclass
        raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")


@dataclass_transform()
class Record(metaclass=_RecordType):
    """Base class of records."""

    _validated = False

    def __init_subclass__(cls, serializer: str | None = None, validation: bool = False, **options: Any) -> None:
        """Make the subclass a dataclass.

        Args:
            serializer: ``json`` (the only form).
            validation: check types in the constructor too.
            options: Faust's other class options; those that would change results are refused.

        Raises:
            UnsupportedFaustFeatureError: naming the option.
        """
        super().__init_subclass__()
        if serializer not in (None, "json"):
            raise UnsupportedFaustFeatureError(f"serializer={serializer!r} of {cls.__name__}", "use serializer='json'")
        for name, value in options.items():
            if name not in _ACCEPTED or (name in ("include_metadata", "allow_blessed_key") and value):
                raise UnsupportedFaustFeatureError(f"Record option {name!r} of {cls.__name__}", "leave it out")
        cls._validated = validation or cls._validated
        dataclasses.dataclass(cls)
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]  # it is a dataclass now
            if field.name in cls.__dict__:
                delattr(cls, field.name)  # the default lives in __init__; the class attribute names the field

    def __post_init__(self) -> None:
        """Check the types if the class says so."""
        if self._validated:
            self.validate()

    def validate(self) -> None:
        """Check the types of all fields.

        Raises:
            ValidationError: naming the field.
        """
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}  # type: ignore[attr-defined]
        for name, kind in _types(type(self)).items():
            try:
                msgspec.convert(msgspec.to_builtins(fields[name]), kind)
            except (msgspec.MsgspecError, TypeError) as error:
                raise ValidationError(f"{type(self).__name__}.{name}: {error}") from error

    def asdict(self) -> dict[str, Any]:
        """Fields as a dict; nested records stay records."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}  # type: ignore[attr-defined]

    def to_representation(self) -> dict[str, Any]:
        """Plain values, as they are written."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def derive(self: SelfT, **fields: Any) -> SelfT:
        """A copy with other values."""
        return dataclasses.replace(self, **fields)  # type: ignore[type-var]  # every subclass is a dataclass

    def dumps(self) -> bytes:
        """JSON."""
        return msgspec.json.encode(self)

    @classmethod
    def loads(cls: type[SelfT], data: bytes | str) -> SelfT:
        """Inverse of :meth:`dumps`; unknown fields are ignored.

        Raises:
            ValidationError: not JSON of this record.
        """
        try:
            return msgspec.json.decode(data, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ValidationError(f"not a {cls.__name__}: {error}") from error

    @classmethod
    def from_data(cls: type[SelfT], data: Any) -> SelfT:
        """Make one of plain values.

        Raises:
            ValidationError: naming the field.
        """
        try:
            return msgspec.convert(data, cls)
        except msgspec.MsgspecError as error:
            raise ValidationError(f"not a {cls.__name__}: {error}") from error


def _types(model: type[Record]) -> dict[str, Any]:
    from typing import get_type_hints

    hints = get_type_hints(model)
    return {field.name: hints[field.name] for field in dataclasses.fields(model)}  # type: ignore[arg-type]
