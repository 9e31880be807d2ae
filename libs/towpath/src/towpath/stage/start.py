"""Where a task begins to read its input: a pure decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from statemgr.errors import InputLostError
from statemgr.kafka.ports import Bounds
from statemgr.types import TopicPartition


class Recorded(NamedTuple):
    """A recorded input position: next offset, and the id of the topic that it belongs to (empty: unknown)."""

    offset: int
    topic_id: str = ""


@dataclass(frozen=True)
class Start:
    """Offset to read from, and how many records were given up before it."""

    offset: int
    lost: int = 0


def decide_start(
    source: TopicPartition,
    recorded: Recorded | None,
    bounds: Bounds,
    topic_id: str,
    start_from: str,
    on_input_loss: str,
) -> Start:
    """Where reading goes on.

    Args:
        source: the input partition, for messages.
        recorded: position from the progress record, or None for a task that never ran.
        bounds: log start and end of the input.
        topic_id: id of the input topic as it exists.
        start_from: ``earliest`` or ``latest``: where a task that never ran begins.
        on_input_loss: ``stop`` or ``skip``: what to do when retention deleted records that were still needed.

    Raises:
        InputLostError: records are lost and the setting says stop; or the topic was made anew, or ends before the
            recorded offset, which no setting can mend.
    """
    if recorded is None:
        return Start(bounds.end if start_from == "latest" else bounds.start)
    if recorded.topic_id not in {"", topic_id}:
        raise InputLostError(
            f"{source} was made anew (its id is {topic_id}, this task has read {recorded.topic_id}), so its offsets "
            "mean other records. Restore the topic, or start the application under another name"
        )
    if recorded.offset > bounds.end:
        raise InputLostError(
            f"{source} ends at offset {bounds.end}, but this task has already read up to {recorded.offset}: the topic "
            "lost records. Restore it, or start the application under another name"
        )
    if recorded.offset >= bounds.start:
        return Start(recorded.offset)
    lost = bounds.start - recorded.offset
    if on_input_loss == "skip":
        return Start(bounds.start, lost)
    raise InputLostError(
        f"{source} starts at offset {bounds.start}, but offset {recorded.offset} is needed: {lost} records were "
        "deleted by retention. Raise retention.ms, or go on without them with --on-input-loss skip"
    )
