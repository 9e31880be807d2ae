"""What the driver tells of a worker: how late its event loop is, its memory, its migrations, its waits."""

from __future__ import annotations

import asyncio
import resource
from collections import deque
from pathlib import Path

import msgspec

from statemgr.migration.progress import MigrationProgress

BEAT_S = 0.05
"""Between two looks at how late the event loop is."""

BEATS = 6_000
"""Looks that are remembered: five minutes."""

_PAGE_BYTES = resource.getpagesize()


class PartitionReport(msgspec.Struct, frozen=True):
    """A changelog partition of this worker.

    Attributes:
        topic: the changelog.
        partition: its number.
        base: what its state was made of when it was taken over.
        generation: of the consumer group then.
        offset: changelog offset up to which its store is complete; None: nothing is known to be.
        unwritten: changes that the store has not taken yet.
        migration: how far state has come that was elsewhere; None: all is here.
    """

    topic: str
    partition: int
    base: str
    generation: int
    offset: int | None
    unwritten: int
    migration: MigrationProgress | None


class Report(msgspec.Struct, frozen=True):
    """A worker as a whole.

    Attributes:
        holder: name of its stores.
        state_manager: address of the state manager beside it.
        rss_bytes: its memory.
        loop_delay_p99_ms: how late its event loop was, at the 99th percentile of the last five minutes.
        loop_delay_max_ms: and at worst.
        waits: reads that had to wait for state from elsewhere, since the start.
        waits_s: for how long, together.
        longest_wait_s: the longest of them.
        active: partitions whose events are processed here.
        standby: partitions that are kept for later.
    """

    holder: str
    state_manager: str
    rss_bytes: int
    loop_delay_p99_ms: float
    loop_delay_max_ms: float
    waits: int
    waits_s: float
    longest_wait_s: float
    active: tuple[PartitionReport, ...]
    standby: tuple[PartitionReport, ...]


class LoopDelay:
    """Measures how late the event loop calls what is due."""

    def __init__(self) -> None:
        self._late_s: deque[float] = deque(maxlen=BEATS)
        self._worst_s = 0.0

    async def run(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + BEAT_S
            await asyncio.sleep(BEAT_S)
            self.note(loop.time() - due_s)

    def note(self, late_s: float) -> None:
        """A call was so late."""
        self._late_s.append(max(0.0, late_s))
        self._worst_s = max(self._worst_s, late_s)

    @property
    def p99_ms(self) -> float:
        """At the 99th percentile of what is remembered."""
        ordered = sorted(self._late_s)
        return 1000 * ordered[len(ordered) * 99 // 100] if ordered else 0.0

    @property
    def max_ms(self) -> float:
        """At worst, since the start."""
        return 1000 * self._worst_s


def rss_bytes() -> int:
    """Resident memory of this process."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
