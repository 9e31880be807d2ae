"""What a replica keeps for each task it owns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from statemgr.progress import InputProgress, Progress
from statemgr.state import TaskState
from statemgr.types import TaskId, TopicPartition
from statemgr.watermarks import Watermarks
from towpath.stage.absent import AbsentTimers
from towpath.stage.parking import Parking


class Migrating(Protocol):
    """The way of a task's state to this replica."""

    @property
    def complete(self) -> bool:
        """Whether no other's copy is needed any more."""
        ...

    def request(self, keys: Sequence[bytes]) -> None:
        """Fetch these store keys soon: rows wait for them."""
        ...

    def advance(self, now_s: float, budget_s: float) -> None:
        """Install what has arrived and ask for more; tells the task's parking which store keys are resolved."""
        ...

    def fetch(self, bins: Collection[int]) -> None:
        """Fetch these bins at once: event time has to wait for them."""
        ...

    def hurry(self) -> None:
        """Bring the rest without pacing."""
        ...

    def close(self) -> None:
        """Ask and install nothing more."""
        ...

    def report(self) -> dict[str, Any]:
        """How far it has come."""
        ...


@dataclass
class OwnedTask:
    """A task, its next input offsets and its state.

    Attributes:
        id: stage and partition.
        epoch: the epoch under which the task is owned.
        positions: input topic → next offset to process, or to park.
        topic_ids: input topic → its id.
        state: tables of the task; None in a stateless stage.
        touched: whether something happened since the last commit.
        parking: rows that wait for state, and what a former owner left undone; None where there is neither.
        migration: the way of its state to this replica; None once all of it is here.
        behind: topics of which more was read than there was room to park; their positions pass no markers.
        recorded_watermarks: what the former owner recorded of its watermarks.
        watermarks: its watermarks, where operators use event time (R14).
        absent: the earliest timers of state that is elsewhere.
        timers: those of all its state, by bin, for the release; None: not known.
        undecoded: whether records were read that can't be decoded before a schema registry answers.
        silent: whether it was handed over, and none of its rows has been sent since.
        committed: input topic → lowest offset that is not done by the newest commit.
    """

    id: TaskId
    epoch: int
    positions: dict[str, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    state: TaskState | None = None
    touched: bool = field(default=False)
    parking: Parking | None = None
    migration: Migrating | None = None
    behind: set[str] = field(default_factory=set)
    recorded_watermarks: Mapping[str, int] = field(default_factory=dict)
    watermarks: Watermarks | None = None
    absent: AbsentTimers = field(default_factory=AbsentTimers)
    timers: dict[int, int] | None = None
    undecoded: bool = False
    silent: bool = False
    committed: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.note_committed()

    def note_committed(self) -> None:
        """What was done up to now is committed."""
        self.committed = {source.topic: offset for source, offset in self.offsets().items()}

    @property
    def migrating(self) -> bool:
        """Whether part of the state is still elsewhere."""
        return self.migration is not None

    @property
    def full(self) -> bool:
        """Whether there is no room for more rows that wait: its inputs are to be paused, and resumed afterwards."""
        return self.undecoded or (self.parking is not None and self.parking.full)

    def settle(self) -> bool:
        """Whether all state is here; once it is, every row that waited for it may go on."""
        if self.migration is not None and self.migration.complete:
            self.migration = None
            if self.state is not None:
                self.state.finish_migration()
            if self.parking is not None:
                self.parking.resolve_all()
        return self.migration is None

    def advance(self, topic: str, next_offset: int) -> None:
        """Move the input position forward; never back."""
        if next_offset > self.positions[topic]:
            self.positions[topic] = next_offset
            self.touched = True

    def skip(self, topic: str, next_offset: int) -> None:
        """Let the input position pass offsets without a record, as transaction markers are."""
        if topic not in self.behind:
            self.advance(topic, next_offset)

    def progress(self) -> Progress:
        """The progress record as of now (R1)."""
        inputs = {topic: self._input(topic, offset) for topic, offset in self.positions.items()}
        if self.watermarks is None:
            return Progress(self.epoch, inputs, dict(self.recorded_watermarks))
        return Progress(self.epoch, inputs, self.watermarks.record({name: item.low for name, item in inputs.items()}))

    def note(self, source: TopicPartition) -> str:
        """Metadata of an input's committed offset: ~70 of the 4096 bytes that Kafka allows."""
        note = _OffsetNote(self.epoch, self.positions[source.topic], self.topic_ids.get(source.topic, ""))
        return msgspec.json.encode(note).decode()

    def reads_from(self) -> dict[TopicPartition, int]:
        """Next offset to be read of every input partition."""
        return {TopicPartition(topic, self.id.partition): offset for topic, offset in self.positions.items()}

    def offsets(self) -> dict[TopicPartition, int]:
        """Lowest incomplete offset of every input partition: what the group shows (R2)."""
        if self.parking is None:
            return self.reads_from()
        return {
            TopicPartition(topic, self.id.partition): self._input(topic, offset).low
            for topic, offset in self.positions.items()
        }

    def _input(self, topic: str, offset: int) -> InputProgress:
        topic_id = self.topic_ids.get(topic, "")
        if self.parking is not None:
            return self.parking.progress(topic, offset, topic_id)
        return InputProgress(low=offset, high=offset, topic_id=topic_id)


class _OffsetNote(msgspec.Struct, frozen=True):
    """Metadata of a committed offset: a stateless stage's progress (R2)."""

    epoch: int
    high: int
    topic_id: str = ""


def noted_topic_id(metadata: str) -> str:
    """Topic id in an offset's metadata; empty where somebody else committed the offset, which is allowed."""
    try:
        return msgspec.json.decode(metadata, type=_OffsetNote).topic_id
    except msgspec.MsgspecError:
        return ""


def shown_offsets(tasks: Iterable[OwnedTask], shown: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Offsets that differ from what the group shows."""
    return {
        source: offset for task in tasks for source, offset in task.offsets().items() if shown.get(source) != offset
    }


def owner_index(tasks: Iterable[OwnedTask]) -> dict[int, OwnedTask]:
    """Tasks by partition."""
    return {task.id.partition: task for task in tasks}
