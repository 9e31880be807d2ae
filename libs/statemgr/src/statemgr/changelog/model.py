"""The words of a restore: what it is told, what it reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from statemgr.progress import Progress
from statemgr.store.base import Store
from statemgr.types import TaskId


@dataclass(frozen=True)
class RestoreSettings:
    """Limits of a restore.

    Attributes:
        stall_timeout_s: without any progress for this long the restore gives up. Longer than a foreign transaction
            can hold back committed records (transaction.timeout.ms = 10 s, plus the coordinator's 10 s of grace).
        settle_s: how long a log that ends before the store must stay so until it is believed. A new leader learns
            the true end with the first fetches of its followers, within a second.
        poll_s: longest single wait, and so how soon a stop request is seen.
        bounds_timeout_s: one query for log start and end.
        batch_records: records taken at once: few enough to be still in the processor's cache when they are written
            (at 20,000 instead the loop takes 1.3 times as long).
        chunk_bytes: keys and values waiting to be written, over all tasks together; as Python objects about three
            times that. Few enough, too, for the processor's cache.
        max_restarts: how often a task may start over because the log start overtook the reader.
    """

    stall_timeout_s: float = 60.0
    settle_s: float = 5.0
    poll_s: float = 0.25
    bounds_timeout_s: float = 10.0
    batch_records: int = 5_000
    chunk_bytes: int = 1024 * 1024
    max_restarts: int = 5


FILL_FROM_RECORDS = 50_000
"""From so many offsets on a store is opened for filling: that costs one more opening, about 10 ms a store."""

MIN_CHUNK_BYTES = 64 * 1024
"""Least size of one task's write batch: smaller ones cost more for the call than for the data."""


class RestoreProgress(NamedTuple):
    """How far a restore has come, over all tasks.

    Attributes:
        records: changelog records applied.
        bytes: bytes of their keys and values.
        remaining: offsets still ahead of the readers; counts markers and compacted offsets too, so it is a bound.
        each: the same of each task.
    """

    records: int
    bytes: int
    remaining: int
    each: Mapping[TaskId, RestoreProgress] = MappingProxyType({})


class Source(StrEnum):
    """Where a task's state came from."""

    TAIL = "tail"
    FULL = "full"
    FRESH = "fresh"


@dataclass(frozen=True)
class RestoredTask:
    """A task that is ready.

    Attributes:
        task: which.
        epoch: the owner's epoch, which is also the store's.
        store: open, complete up to the captured end of the changelog.
        progress: the last progress record; None for a task that never committed.
        source: what the state was made of.
        records: changelog records applied.
        restarts: how often it started over because the log was truncated ahead of the reader.
    """

    task: TaskId
    epoch: int
    store: Store
    progress: Progress | None
    source: Source
    records: int
    restarts: int
