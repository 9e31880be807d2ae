"""What is read off the words of those who bring state: whether it comes, and when all of it will be there.

Replicas say of a task on its way to them, or of a copy that they make, what they know of ``hot_keys``, ``bins_done`` of
``bins_total`` and ``keys_fetched`` (state that comes from holders), ``records`` and ``remaining`` (the changelog:
records applied, and offsets still ahead, which bound the records), ``bytes`` of either and the ``rate`` of those,
``phase`` in words, and ``stalled``. All of it is for display: nothing is decided by it, and what can't be understood is
taken for not said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from statemgr.types import TaskId
from towpath.coordinator.fleet import Fleet
from towpath.coordinator.messages import TaskReport

_MOVING = ("hot_keys", "bins_done", "keys_fetched", "records", "remaining", "bytes")
"""What changes while state comes."""

_LARGEST = 2.0**63
"""No figure is above it: bytes and records are counted in 64 bits."""


def said_by(fleet: Fleet, replica: str, task: TaskId, epoch: int, *, copy: bool = False) -> TaskReport | None:
    """What a replica said last of a task, or of its copy, under an epoch."""
    heard = fleet.replicas.get((task.stage, replica))
    if heard is None:
        return None
    reports: Iterable[TaskReport] = heard.beat.copies if copy else heard.beat.tasks
    return next((each for each in reports if (each.partition, each.epoch) == (task.partition, epoch)), None)


def mark_of(report: TaskReport) -> tuple[Any, ...]:
    """Where it stands: another one than before means that something has come."""
    progress = report.migration or {}
    return (report.state, *map(progress.get, _MOVING))


def figure(progress: Mapping[str, Any], name: str) -> float | None:
    """A figure that was said; None: none was, or what was said is no number."""
    said = progress.get(name)
    if isinstance(said, bool) or not isinstance(said, int | float):
        return None
    return float(said) if abs(said) <= _LARGEST else None


def seconds_left(progress: Mapping[str, Any]) -> float | None:
    """How long the rest will take if it comes as fast as lately; None: can't be told."""
    in_bins = "bins_total" in progress
    names = ("bins_done", "bins_total") if in_bins else ("records", "remaining")
    said = [known for name in (*names, "bytes", "rate") if (known := figure(progress, name)) is not None]
    if len(said) < 4:
        return None
    done, ahead, came, rate = said
    rest = ahead - done if in_bins else ahead
    return came / done * rest / rate if done >= 1 and rate > 0 and rest >= 0 else None
