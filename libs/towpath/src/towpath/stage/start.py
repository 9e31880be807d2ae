"""Where a task begins to read its input: a pure decision."""

from __future__ import annotations

from dataclasses import dataclass

from statemgr.errors import InputLostError
from statemgr.kafka.ports import Bounds
from statemgr.types import TopicPartition


@dataclass(frozen=True)
class Start:
    """Offset to read from, and how many records were given up before it."""

    offset: int
    lost: int = 0


def decide_start(
    source: TopicPartition, recorded: int | None, bounds: Bounds, start_from: str, on_input_loss: str
) -> Start:
    """Where reading goes on.

    Args:
        source: the input partition, for messages.
        recorded: offset from the progress record, or None for a task that never ran.
        bounds: log start and end of the input.
        start_from: ``earliest`` or ``latest``: where a task that never ran begins.
        on_input_loss: ``stop`` or ``skip``: what to do when retention deleted records that were still needed.

    Raises:
        InputLostError: records are lost and the setting says stop, or the log ends before the recorded offset.
    """
    if recorded is None:
        return Start(bounds.end if start_from == "latest" else bounds.start)
    if recorded > bounds.end:
        raise InputLostError(
            f"{source} ends at offset {bounds.end}, but this task has already read up to {recorded}: the topic was "
            "made anew or lost records. Restore the topic, or start the application under another name"
        )
    if recorded >= bounds.start:
        return Start(recorded)
    lost = bounds.start - recorded
    if on_input_loss == "skip":
        return Start(bounds.start, lost)
    raise InputLostError(
        f"{source} starts at offset {bounds.start}, but offset {recorded} is needed: {lost} records were deleted by "
        "retention. Raise retention.ms, or go on without them with --on-input-loss skip"
    )
