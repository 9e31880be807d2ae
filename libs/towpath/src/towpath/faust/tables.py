"""Tables: state by key, partitioned like the agent's input, in the stage's changelog."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from statemgr.state import ValueCodec, json_codec
from towpath.faust.errors import UnsupportedFaustFeatureError
from towpath.faust.serializers import key_from_bytes, key_to_bytes

if TYPE_CHECKING:
    from towpath.faust.runtime import Runtime

_WINDOWS = (
    "tumbling",
    "hopping",
    "using_window",
    "relative_to",
    "relative_to_now",
    "relative_to_stream",
    "relative_to_field",
)
_MISSING = object()


class Table:
    """A dict whose entries live with the task of the event in hand.

    ``table[key]`` gives ``default()`` for an absent key; a value that is changed in place must be assigned again.
    Iteration covers the entries of the current task. Keys are stored as text; without ``key_type`` iteration gives
    text.
    """

    def __init__(
        self, name: str, default: Callable[[], Any] | None, key_type: Any, value_type: Any, runtime: Runtime
    ) -> None:
        """Made by :meth:`towpath.faust.App.Table`."""
        self.name = name
        self.default = default
        self.key_type = key_type
        self.value_type = value_type
        self._runtime = runtime

    @property
    def codec(self) -> ValueCodec[Any]:
        """How values are written: JSON of ``value_type``; without one, of anything that JSON can tell apart.

        The default says little about the type (a sum of floats may begin with ``int``); only sets need its word,
        because in JSON they are lists.
        """
        kind = self.value_type
        if kind is None:
            kind = self.default if self.default in (set, frozenset) else Any
        return json_codec(kind)

    def __getitem__(self, key: Any) -> Any:
        value = self._runtime.turn.get(self.name, key_to_bytes(key))
        if value is not None:
            return value
        if self.default is None:
            raise KeyError(key)
        return self.default()

    def __setitem__(self, key: Any, value: Any) -> None:
        if value is None:
            raise ValueError(f"table {self.name!r} can't hold None, which means absence: use `del table[key]`")
        self._runtime.turn.put(self.name, key_to_bytes(key), value)

    def __delitem__(self, key: Any) -> None:
        if key not in self:
            raise KeyError(key)
        self._runtime.turn.put(self.name, key_to_bytes(key), None)

    def __contains__(self, key: Any) -> bool:
        return self._runtime.turn.get(self.name, key_to_bytes(key)) is not None

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self.items())

    def get(self, key: Any, default: Any = None) -> Any:
        """The value, or ``default``."""
        value = self._runtime.turn.get(self.name, key_to_bytes(key))
        return default if value is None else value

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """The value; ``default`` is set first if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: Any, default: Any = _MISSING) -> Any:
        """Delete and give the value.

        Raises:
            KeyError: there is none, and no ``default``.
        """
        value = self.get(key)
        if value is not None:
            del self[key]
            return value
        if default is _MISSING:
            raise KeyError(key)
        return default

    def update(self, entries: Mapping[Any, Any] | None = None, **named: Any) -> None:
        """Set several values."""
        for key, value in {**(entries or {}), **named}.items():
            self[key] = value

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Entries of the current task."""
        for key, value in self._runtime.turn.items(self.name):
            yield key_from_bytes(key, self.key_type), value

    def keys(self) -> Iterator[Any]:
        """Keys of the current task."""
        return iter(self)

    def values(self) -> Iterator[Any]:
        """Values of the current task."""
        return (value for _, value in self.items())

    def __getattr__(self, name: str) -> Any:
        """Name what Faust's tables have besides."""
        if name in _WINDOWS:
            raise UnsupportedFaustFeatureError(
                f"Table.{name}", "put the window's start into the key, e.g. table[f'{key}/{time // 60}']"
            )
        if name in (
            "on_key_get",
            "on_key_set",
            "as_ansitable",
            "on_recover",
            "clear",
            "changelog_topic",
            "send_changelog",
        ):
            raise UnsupportedFaustFeatureError(f"Table.{name}", "read tables from outside by the state manager")
        raise AttributeError(f"Table has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"<Table {self.name}>"
