"""What happens in a cluster, in order: control records, questions to state managers, rows that are processed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from statemgr.control.records import ControlRecord, decode_control
from statemgr.layout import control_topic
from statemgr.migration.ports import Address
from statemgr.testing.kafka import FakeKafka
from statemgr.types import TaskId
from tests.unit.towpath.stage.plans import APP

E = TypeVar("E")


@dataclass(frozen=True)
class Request:
    """A question to a state manager.

    Attributes:
        asker: which replica asks.
        call: what: describe, look_up, hot, bins, filter.
        address: of which copy, for which epoch.
        args: the call's own arguments.
    """

    asker: str
    call: str
    address: Address
    args: tuple[Any, ...]

    @property
    def keys(self) -> list[bytes]:
        """Store keys of a look-up."""
        assert self.call == "look_up"
        return list(self.args[1])

    @property
    def bins(self) -> tuple[int, int]:
        """First and last bin that are asked for."""
        assert self.call == "bins"
        return self.args[1], self.args[2]


@dataclass(frozen=True)
class Rows:
    """Input records of a task that came to its owner's operators.

    Attributes:
        replica: the owner.
        task: the task.
        epoch: under which it is owned.
        complete: whether all state was there.
    """

    replica: str
    task: TaskId
    epoch: int
    complete: bool


@dataclass(frozen=True)
class Arrived:
    """A task that its new owner has begun to run."""

    replica: str
    task: TaskId
    epoch: int


Event = Request | Rows | Arrived | ControlRecord


class Journal:
    """What happened, in order; the control log is read before anything else is noted."""

    def __init__(self, kafka: FakeKafka) -> None:
        self._kafka = kafka
        self._read = 0
        self._events: list[Event] = []

    def note(self, event: Event) -> None:
        """Write something down."""
        self._read_log()
        self._events.append(event)

    def events(self, since: int = 0) -> list[Event]:
        """All of it, or what came after a :attr:`mark`."""
        self._read_log()
        return self._events[since:]

    @property
    def mark(self) -> int:
        """The present place."""
        return len(self.events())

    def requests(self, *calls: str, since: int = 0) -> list[Request]:
        """Questions to state managers."""
        found = [event for event in self.events(since) if isinstance(event, Request)]
        return [request for request in found if not calls or request.call in calls]

    def _read_log(self) -> None:
        entries = self._kafka.entries(control_topic(APP), 0)
        records = [entry for entry in entries[self._read :] if entry.value is not None]
        self._read = len(entries)
        self._events += [decode_control(entry.key, entry.value) for entry in records]


def places(events: Sequence[Event], kind: type[E], task: TaskId | None = None, epoch: int | None = None) -> list[int]:
    """Where events of a kind stand in the journal."""

    def fits(event: Event) -> bool:
        if isinstance(event, Request):
            return task in (None, event.address.task) and epoch in (None, event.address.target)
        return task in (None, event.task) and epoch in (None, event.epoch)

    return [place for place, event in enumerate(events) if isinstance(event, kind) and fits(event)]
