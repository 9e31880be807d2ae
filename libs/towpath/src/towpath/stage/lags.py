"""How far tasks are behind the ends of their inputs, as of the newest fetch: pure, and asks nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from statemgr.types import TopicPartition
from towpath.stage.tasks import OwnedTask

Unread = Callable[[TopicPartition], int | None]
"""Offsets of an input that are not read yet; None: not known."""


class Lag(NamedTuple):
    """Input offsets that are not read yet, and those that are not committed yet."""

    read: int
    committed: int


def lag_of(task: OwnedTask, source: TopicPartition, unread: Unread) -> Lag | None:
    """Of one input; None: not known."""
    left = unread(source)
    if left is None:
        return None
    return Lag(left, left + task.positions[source.topic] - task.committed.get(source.topic, 0))


def total_lag(lags: Iterable[Lag | None]) -> Lag | None:
    """Of all inputs of a task; unknown while one of them is."""
    known = list(lags)
    if None in known:
        return None
    found = [lag for lag in known if lag is not None]
    return Lag(sum(lag.read for lag in found), sum(lag.committed for lag in found))
