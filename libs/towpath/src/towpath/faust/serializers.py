"""Keys and values of topics to bytes and back, by type and by the name of a serializer.

``json`` is the default for values, ``raw`` for keys: text and bytes as they are, numbers as decimal digits. A record is
always JSON. A raw key is the text under which every part of Towpath finds that key.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec

from towpath.faust.errors import UnsupportedFaustFeatureError, ValidationError
from towpath.faust.models import Record

SERIALIZERS = ("json", "raw")

_PARSED_RAW: dict[Any, Any] = {str: bytes.decode, int: int, float: float, Decimal: lambda data: Decimal(data.decode())}


@dataclass(frozen=True)
class Serde:
    """How one side (key or value) of a topic is written.

    Attributes:
        kind: expected type, or None for whatever comes.
        serializer: ``json`` or ``raw``.
    """

    kind: Any
    serializer: str

    def loads(self, data: bytes | None) -> Any:
        """Decode; None (no key, a tombstone) stays None unless a record is expected.

        Raises:
            ValidationError: the bytes are not of the type.
        """
        if data is None:
            if _is_record(self.kind):
                raise ValidationError(f"expected {self.kind.__name__}, but there is nothing")
            return None
        try:
            return self._loads(data)
        except (msgspec.MsgspecError, ValueError, ArithmeticError) as error:
            raise ValidationError(f"not {getattr(self.kind, '__name__', self.serializer)}: {error}") from error

    def dumps(self, value: Any) -> bytes | None:
        """Encode; bytes are taken as they are."""
        if value is None or isinstance(value, bytes):
            return value
        if self.serializer == "json" or not isinstance(value, str | int | float | Decimal):
            return msgspec.json.encode(value)
        return key_to_bytes(value)

    def _loads(self, data: bytes) -> Any:
        if self.serializer == "json" or _is_record(self.kind):
            return msgspec.json.decode(data, type=Any if self.kind is None else self.kind, strict=False)
        parse = _PARSED_RAW.get(self.kind)
        return data if parse is None else parse(data)


def serde(kind: Any, serializer: str | None, default: str, place: str) -> Serde:
    """Checked :class:`Serde`.

    Raises:
        UnsupportedFaustFeatureError: another serializer than ``json`` and ``raw``.
    """
    chosen = serializer or default
    if chosen not in SERIALIZERS:
        raise UnsupportedFaustFeatureError(f"serializer {chosen!r} of {place}", "use 'json' or 'raw'")
    return Serde(kind, chosen)


def key_to_bytes(key: Any) -> bytes:
    """The text of a key: of strings and numbers the text itself, of booleans and everything else JSON.

    Raises:
        ValidationError: None, which is no key.
    """
    if key is None:
        raise ValidationError("the key is null")
    if isinstance(key, bytes):
        return key
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, float | Decimal):
        return str(key).encode()
    return msgspec.json.encode(key)


def key_from_bytes(data: bytes, kind: Any) -> Any:
    """Inverse of :func:`key_to_bytes` for a known type; text if ``kind`` is None."""
    if kind is bytes:
        return data
    if kind in (None, str):
        return data.decode()
    return msgspec.json.decode(data, type=kind)


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Record)
