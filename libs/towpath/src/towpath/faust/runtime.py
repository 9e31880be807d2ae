"""The event in hand: what it has changed and sent, kept or dropped as a whole.

Tables and topics are module-level objects of the user's program. Between two events they belong to nobody; while an
agent handles an event they act on the state of that event's task, through the :class:`Turn` that the operator has set.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from statemgr.state import ValueTable
from towpath.faust.errors import NoCurrentEventError
from towpath.query.plan import OperatorContext

_SCALARS = (int, str, bytes, float, bool, type(None))


class Incoming(NamedTuple):
    """A row that an agent is to handle: task, raw key and value."""

    partition: int
    key: bytes | None
    value: bytes | None


class Outgoing(NamedTuple):
    """A record that an agent has sent: to which topic, on behalf of which task."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None


@dataclass
class Turn:
    """One agent's work on a batch.

    Attributes:
        agent: its name, for messages.
        context: state of the tasks.
        topics: topics that the stage may write.
        tables: tables that the stage has.
        event: the event in hand.
        sent: records of all finished events.
    """

    agent: str
    context: OperatorContext
    topics: frozenset[str]
    tables: frozenset[str]
    event: Incoming | None = None
    sent: list[Outgoing] = field(default_factory=list)
    _changed: dict[tuple[str, bytes], Any] = field(default_factory=dict)
    _sending: list[Outgoing] = field(default_factory=list)

    def keep(self) -> None:
        """The event is done: its changes and records count."""
        if self._changed and self.event is not None:
            state = self.context.tasks[self.event.partition]
            for (table, key), value in self._changed.items():
                state.table(table).put(key, value)
        self.sent += self._sending
        self._clear()

    def drop(self) -> None:
        """The event failed: nothing of it counts."""
        self._clear()

    def send(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        """Queue a record.

        Raises:
            NoCurrentEventError: outside the handling of an event.
            LookupError: the stage does not write this topic.
        """
        if topic not in self.topics:
            raise LookupError(
                f"agent {self.agent!r} was planned without topic {topic!r}: name the topic (or the agent that reads "
                "it) directly in the agent's function, or give it as sink"
            )
        self._sending.append(Outgoing(topic, self._event().partition, key, value))

    def get(self, table: str, key: bytes) -> Any:
        """Value in the event's task, or None."""
        if (table, key) in self._changed:
            return _own(self._changed[table, key])
        return _own(self._table(table).get(key))

    def put(self, table: str, key: bytes, value: Any) -> None:
        """Set a value; None deletes.

        Raises:
            CodecError: the value is not of the table's type.
            RecordTooLargeError: it is larger than a changelog record can be.
        """
        stored = self._table(table)
        self._changed[table, key] = None if value is None else stored.as_stored(key, value)

    def items(self, table: str) -> Iterator[tuple[bytes, Any]]:
        """All entries of the event's task, as of now."""
        with self._table(table).items() as stored:
            merged = dict(stored)
        merged |= {key: value for (name, key), value in self._changed.items() if name == table}
        return ((key, _own(value)) for key, value in merged.items() if value is not None)

    def _table(self, name: str) -> ValueTable[Any]:
        if name not in self.tables:
            raise LookupError(
                f"agent {self.agent!r} was planned without table {name!r}: name the table directly in the agent's "
                "function; a table belongs to one agent"
            )
        return self.context.tasks[self._event().partition].table(name)

    def _event(self) -> Incoming:
        if self.event is None:
            raise NoCurrentEventError("tables and topics can be used only while an event is handled")
        return self.event

    def _clear(self) -> None:
        self._changed = {}
        self._sending = []
        self.event = None


class Runtime:
    """Which turn is on, of all agents of an application in this process."""

    def __init__(self) -> None:
        self._turn: Turn | None = None

    def begin(self, turn: Turn | None) -> Turn | None:
        """Set the turn; gives the one before, to be set again."""
        before, self._turn = self._turn, turn
        return before

    @property
    def turn(self) -> Turn:
        """The turn that is on.

        Raises:
            NoCurrentEventError: no agent is at work.
        """
        if self._turn is None:
            raise NoCurrentEventError(
                "tables and topics can be used only inside an agent, while it handles an event: "
                "only then is it known to which task and transaction the operation belongs"
            )
        return self._turn


def _own(value: Any) -> Any:
    """A copy of what could be changed in place, so that nothing changes but by put."""
    return value if isinstance(value, _SCALARS) else deepcopy(value)
