"""State that comes without being asked for by a row: the hot set, then bins, one chunk ahead of what is installed."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from statemgr.migration.ladder import Asked, Ladder
from statemgr.migration.layered import LayeredStore
from statemgr.migration.limits import MigrationLimits
from statemgr.migration.lookups import LookUps
from statemgr.migration.plan import BinPlan, Run, after_chunk
from statemgr.migration.ports import Chunk
from statemgr.migration.record import has_bin
from statemgr.migration.sources import CHUNK_TIMEOUT_S

CHUNKS_AHEAD = 1
"""Chunks that wait to be installed while the next one is fetched: 512 KiB for each task with the one under way."""


@dataclass(frozen=True)
class _Part:
    """A chunk that has come.

    Attributes:
        entries: store key → value; None: deleted.
        run: the bins it belongs to; None: the hot set.
        last: whether the bins are complete with it.
    """

    entries: tuple[tuple[bytes, bytes | None], ...]
    run: Run | None
    last: bool = False


class Background:
    """Fetches and installs a task's state chunk by chunk.

    Args:
        store: where it goes.
        ladder: whom to ask.
        plan: order of the bins.
        look_ups: told which keys need no look-up any more.
        limits: deadlines.
        hot: whether the hot set comes first.

    Attributes:
        active: whether bins are fetched; if not, then only those that the plan wants at once.
        hot_keys: keys of the hot set that have come.
        entries: entries that have come with bins.
    """

    def __init__(
        self,
        store: LayeredStore,
        ladder: Ladder,
        plan: BinPlan,
        look_ups: LookUps,
        limits: MigrationLimits,
        *,
        hot: bool,
    ) -> None:
        self._store = store
        self._ladder = ladder
        self._plan = plan
        self._look_ups = look_ups
        self._limits = limits
        self._hot_cursor: bytes | None = b"" if hot and ladder.holders else None
        self._runs: deque[Run] = deque()
        self._runs_wanted = False
        self._under_way: tuple[Run | None, Asked[Chunk]] | None = None
        self._came: deque[_Part] = deque()
        self.active = False
        self.hot_keys = 0
        self.entries = 0

    @property
    def lacks_scratch(self) -> bool:
        """Whether it can't go on without a scratch base."""
        return bool(self._runs and self._ladder.place(self._runs[0].index) == self._ladder.bottom)

    @property
    def wanted(self) -> bool:
        """Whether bins are fetched that the plan wants at once."""
        return self._plan.wanted or (self._runs_wanted and bool(self._runs or self._under_way))

    @property
    def fetches_hot(self) -> bool:
        """Whether the hot set is still coming."""
        return self._hot_cursor is not None

    @property
    def waiting(self) -> bool:
        """Whether a chunk waits to be installed."""
        return bool(self._came)

    def receive(self, now_s: float) -> None:
        """Take the chunk under way, if it has come."""
        if self._under_way is None or not self._under_way[1].over(now_s):
            return
        (run, asked), self._under_way = self._under_way, None
        chunk = self._ladder.take(asked, now_s)
        if run is None:
            self._hot_came(chunk)
        elif chunk is None:
            self._runs.appendleft(run)
        else:
            rest = after_chunk(run, chunk, self._ladder.bottom)
            self._runs.extendleft(reversed(rest))
            self._came.append(_Part(chunk.entries, run, last=not rest))

    def ask(self, now_s: float) -> None:
        """Send the next request, unless one is under way or enough waits to be installed."""
        if self._under_way is not None or len(self._came) > CHUNKS_AHEAD:
            return
        deadline_s = now_s + CHUNK_TIMEOUT_S + self._limits.grace_s
        if self._hot_cursor is not None:
            if self._ladder.place(0) != 0 or self._ladder.unreliable:
                self._hot_cursor = None  # only a convenience
            elif self._ladder.source(0, now_s) is not None:
                pending = self._ladder.holders[0].hot(self._hot_cursor)
                self._under_way = None, Asked(0, pending, deadline_s)
        elif self.active or self._plan.wanted or self._runs:
            self._ask_bins(now_s, deadline_s)

    def install(self) -> set[bytes]:
        """Install the chunk that has waited longest; gives keys that were wanted and are resolved by it."""
        part = self._came.popleft()
        if part.run is None:
            self._store.install(part.entries)
            self.hot_keys += len(part.entries)
        else:
            self._store.install_bins(part.run.first, part.run.last, part.entries)
            self.entries += len(part.entries)
        resolved = self._look_ups.settle(key for key, _ in part.entries)
        if part.run is not None and part.last:
            self._store.complete_bins(part.run.first, part.run.last)
            resolved |= self._look_ups.settle_bins(part.run.first, part.run.last)
        return resolved

    def _hot_came(self, chunk: Chunk | None) -> None:
        if chunk is not None:
            self._hot_cursor = chunk.next
            self._came.append(_Part(chunk.entries, None))

    def _ask_bins(self, now_s: float, deadline_s: float) -> None:
        if not self._runs:
            self._runs_wanted = self._plan.wanted
            self._runs.extend(self._plan.next(self._whole, wanted_only=not self.active))
        if not self._runs:
            return
        run = self._runs[0]
        place = self._ladder.place(run.index)
        if place != run.index:
            run = self._runs[0] = run.from_start(place)
        source = self._ladder.source(place, now_s)
        if source is not None:
            self._runs.popleft()
            self._under_way = run, Asked(place, source.bins(run.first, run.last, run.cursor), deadline_s)

    def _whole(self, bin_: int) -> bool:
        holders = self._ladder.holders
        return self._ladder.place(0) == self._ladder.bottom or has_bin(holders[0].hint, bin_)
