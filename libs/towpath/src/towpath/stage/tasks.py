"""What a replica keeps for each task it owns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from statemgr.progress import InputProgress, Progress
from statemgr.state import TaskState
from statemgr.types import TaskId, TopicPartition


@dataclass
class OwnedTask:
    """A task, its next input offsets and its state.

    Attributes:
        id: stage and partition.
        epoch: the epoch under which the task is owned.
        positions: input topic → next offset to process.
        topic_ids: input topic → its id.
        state: tables of the task; None in a stateless stage.
        touched: whether something happened since the last commit.
    """

    id: TaskId
    epoch: int
    positions: dict[str, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    state: TaskState | None = None
    touched: bool = field(default=False)

    def advance(self, topic: str, next_offset: int) -> None:
        """Move the input position forward; never back."""
        if next_offset > self.positions[topic]:
            self.positions[topic] = next_offset
            self.touched = True

    def progress(self) -> Progress:
        """The progress record as of now (R1)."""
        return Progress(
            epoch=self.epoch,
            inputs={
                topic: InputProgress(low=offset, high=offset, topic_id=self.topic_ids.get(topic, ""))
                for topic, offset in self.positions.items()
            },
        )

    def note(self, source: TopicPartition) -> str:
        """Metadata of an input's committed offset: ~70 of the 4096 bytes that Kafka allows."""
        note = _OffsetNote(self.epoch, self.positions[source.topic], self.topic_ids.get(source.topic, ""))
        return msgspec.json.encode(note).decode()

    def offsets(self) -> dict[TopicPartition, int]:
        """Next offset of every input partition."""
        return {TopicPartition(topic, self.id.partition): offset for topic, offset in self.positions.items()}


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
