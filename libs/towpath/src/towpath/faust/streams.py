"""The stream that an agent iterates over, and what it tells the planner on its first step."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from towpath.faust.errors import FaustProgramError, UnsupportedFaustFeatureError
from towpath.faust.models import FieldDescriptor
from towpath.faust.topics import Event

T = TypeVar("T")

_INSTEAD = {
    "take": "collect in a table, or use towpath.Query, whose steps work on batches",
    "take_events": "collect in a table, or use towpath.Query, whose steps work on batches",
    "through": "send to a topic that another agent reads",
    "echo": "send to the topics by `await topic.send(…)`",
    "join": "use a table that one agent fills",
    "left_join": "use a table that one agent fills",
    "inner_join": "use a table that one agent fills",
    "outer_join": "use a table that one agent fills",
    "combine": "write one agent for each topic",
    "__and__": "write one agent for each topic",
    "concat": "write one agent for each topic",
    "rate_limit": "limit the load at the source",
    "buffer": "leave it out; reading is batched anyway",
    "noack": "leave it out; an event counts as done when the agent asks for the next one",
    "noack_take": "leave it out; an event counts as done when the agent asks for the next one",
    "tee": "send to the topics by `await topic.send(…)`",
    "clone": "iterate over the stream once",
    "derive": "iterate over the stream once",
    "add_processor": "call the function in the loop",
    "enumerate": "count in the loop",
}


@dataclass(frozen=True)
class Grouping:
    """What ``group_by`` asks for: a name for the stage, and how to find the key in a value."""

    name: str
    key: Callable[[Any], Any]
    partitions: int | None


class Feed(Protocol):
    """Where a stream's events come from."""

    async def next_event(self) -> Event:
        """The next event; the one before counts as handled."""
        ...


class Stream:
    """An endless series of values."""

    def __init__(self, feed: Feed) -> None:
        """Made for each run of an agent."""
        self._feed = feed
        self._filters: list[Callable[[Any], bool]] = []
        self.grouping: Grouping | None = None

    def group_by(
        self,
        key: FieldDescriptor | Callable[[Any], Any],
        *,
        name: str | None = None,
        partitions: int | None = None,
        topic: Any = None,
    ) -> Stream:
        """Bring values with equal keys to one task: the values pass a topic of their own, keyed anew.

        Args:
            key: a record's field (``Model.field``), or a function of the value; a function needs a ``name``.
            name: of the new stage's key.
            partitions: of the topic, by default the application's.
            topic: not supported; Towpath names the topic.
        """
        if topic is not None:
            raise UnsupportedFaustFeatureError("group_by(topic=…)", "leave it out; Towpath makes the topic")
        if self.grouping is not None:
            raise UnsupportedFaustFeatureError(
                "a second group_by in one agent", "send to a topic that another agent reads"
            )
        if isinstance(key, FieldDescriptor):
            self.grouping = Grouping(name or key.field, key.getattr, partitions)
        elif name is None:
            raise FaustProgramError("group_by with a function needs a name: group_by(function, name='…')")
        else:
            self.grouping = Grouping(name, key, partitions)
        return self

    def filter(self, keep: Callable[[Any], bool]) -> Stream:
        """Leave out values for which the function is false."""
        self._filters.append(keep)
        return self

    def events(self) -> AsyncIterator[Event]:
        """Values with their keys."""
        return _Reader(self._next, lambda event: event)

    def items(self) -> AsyncIterator[tuple[Any, Any]]:
        """Pairs of key and value."""
        return _Reader(self._next, lambda event: (event.key, event.value))

    def __aiter__(self) -> AsyncIterator[Any]:
        """The values."""
        return _Reader(self._next, lambda event: event.value)

    async def _next(self) -> Event:
        while True:
            event = await self._feed.next_event()
            if all(keep(event.value) for keep in self._filters):
                return event

    def __getattr__(self, name: str) -> Any:
        """Name what Faust's streams have besides."""
        if name in _INSTEAD:
            raise UnsupportedFaustFeatureError(f"Stream.{name}", _INSTEAD[name])
        raise AttributeError(f"Stream has no attribute {name!r}")

    def __and__(self, other: object) -> Stream:
        raise UnsupportedFaustFeatureError("joining streams by &", _INSTEAD["combine"])


class _Reader(AsyncIterator[T]):
    """Iterates over a stream; no async generator, since those need an event loop to be closed."""

    def __init__(self, following: Callable[[], Awaitable[Event]], view: Callable[[Event], T]) -> None:
        self._following = following
        self._view = view

    async def __anext__(self) -> T:
        return self._view(await self._following())
