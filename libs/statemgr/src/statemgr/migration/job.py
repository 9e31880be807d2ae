"""The arrival of one task's state, while its new owner already works.

::

    row needs keys ─▶ unresolved() ─▶ request() ─▶ look-up ─▶ layer ─▶ layer ─▶ scratch base
                                                     │ answer
    the owner's loop ─▶ poll() ◀────────────────────┤
                          │    ◀──── hot set, bins ──┘ one chunk ahead
                          ▼
                      LayeredStore: if absent, bin by bin, until it is complete

Nothing here waits, and nothing is trusted: what arrives late, twice, for another epoch or out of order changes nothing
(R8, I4). One task, one epoch: after a change of owner there is a new job over a new store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from statemgr.clock import Clock
from statemgr.control.records import Manner, Strategy
from statemgr.layout import BIN_COUNT
from statemgr.migration.absence import Absence
from statemgr.migration.background import Background
from statemgr.migration.builder import ScratchBuilder
from statemgr.migration.ladder import Ladder
from statemgr.migration.layered import LayeredStore
from statemgr.migration.limits import MigrationLimits
from statemgr.migration.lookups import LookUps
from statemgr.migration.plan import BinPlan
from statemgr.migration.ports import Spawn, StateClient
from statemgr.migration.progress import MigrationProgress, Pace, Rate
from statemgr.migration.sources import HolderSource, ScratchSource, UsableLayer
from statemgr.types import TaskId

_AT_ONCE = {Strategy.BLOCK, Strategy.PRECOPY, Strategy.STANDBY, Strategy.REPLAY, Strategy.RESTART}
"""Strategies that fetch all bins as fast as they can, because no row comes before all state is here."""


class MigrationJob:
    """Brings one task's state from its sources into its store.

    Args:
        task: whose state.
        epoch: the owner's epoch; every question is asked for it, every answer checked against it (R8).
        store: the owner's store over the layers.
        sources: usable layers, newest first; none: everything comes from the scratch base.
        client: asks state managers.
        clock: time.
        manner: strategy, priority, look-ahead, key filter, pacing, bins.
        spawn: runs the making of a scratch base beside the caller.
        scratch: makes it: :func:`statemgr.migration.scratch.build_scratch` up to the store's cut.
        limits: deadlines and sizes.

    Attributes:
        superseded: a state manager says that the task belongs to another owner by now; nothing is asked any more.
        stalled: why nothing moves; None while something does, or while nothing is wanted.
    """

    def __init__(
        self,
        task: TaskId,
        epoch: int,
        store: LayeredStore,
        sources: Sequence[UsableLayer],
        client: StateClient,
        clock: Clock,
        manner: Manner,
        spawn: Spawn,
        scratch: Callable[[], ScratchSource],
        limits: MigrationLimits | None = None,
    ) -> None:
        self.task = task
        self.epoch = epoch
        self.store = store
        self._clock = clock
        self._manner = manner
        self._limits = limits or MigrationLimits()
        self._ladder = Ladder([HolderSource(client, task, epoch, each) for each in sources], self._limits)
        self._look_ups = LookUps(self._ladder, self._limits, together=manner.look_ahead)
        at_once = manner.strategy in _AT_ONCE
        self._absence = Absence(self._ladder, self._limits, wanted=manner.key_filter and not at_once)
        self._plan = BinPlan(lambda bin_: not store.has_bin(bin_), manner.bins)
        hot = manner.priority and manner.strategy is Strategy.HYBRID
        self._background = Background(store, self._ladder, self._plan, self._look_ups, self._limits, hot=hot)
        self._background.active = manner.strategy is not Strategy.LAZY
        self._builder = ScratchBuilder(scratch, spawn, self._limits.scratch_retry_s)
        self._pace = Pace(1.0 if at_once else manner.pacing)
        self._resolved: set[bytes] = set()
        self._started_s = self._moved_s = clock.monotonic_s()
        self._rate = Rate(self._started_s)
        self._closed = False
        self.stalled: str | None = None

    @property
    def complete(self) -> bool:
        """Whether all state is here; with ``block`` the first row waits for it."""
        return self.store.complete

    @property
    def superseded(self) -> bool:
        """See the class."""
        return self._ladder.superseded

    @property
    def closed(self) -> bool:
        """Whether it was closed; a scratch base that is still being made may ask this, to stop."""
        return self._closed

    def request(self, store_keys: Iterable[bytes]) -> None:
        """Want the state of these keys; look-ups are sent at once, answers come by :meth:`poll`."""
        keys = list(store_keys)
        here = {key for key in keys if self.store.has_bin(key[0])}  # its bin has come since it was found missing
        absent = self._absence.among([key for key in keys if key not in here])
        if absent:
            self.store.install([(key, None) for key in absent])
        self._resolved |= here.union(absent)
        self._look_ups.add(key for key in keys if key not in self._resolved)
        if self._works:
            self._look_ups.send(self._clock.monotonic_s())

    def hasten(self, bins: Iterable[int]) -> None:
        """Fetch these bins first: rows or timers wait for them."""
        if self._manner.priority:
            self._plan.hasten(bins)

    def fetch(self, bins: Iterable[int]) -> None:
        """Fetch these bins at once, whatever the strategy and its pace: event time stands still for them (R14)."""
        self._plan.want(bins)

    def hurry(self) -> None:
        """Fetch all bins as fast as possible: a holder wants to leave."""
        self._background.active = True
        self._pace = Pace(1.0)

    def poll(self, now_s: float, budget_s: float) -> set[bytes]:
        """Take up what has come, ask for more; gives requested keys that are resolved since the last call.

        Args:
            now_s: monotonic seconds.
            budget_s: time that installing background chunks may take. If it is above 0, one waiting chunk is
                installed in any case; answers to look-ups always are.

        Raises:
            StoreWriteError, CorruptStoreError: the task can't go on here.
        """
        if self._works:
            answers = self._ladder.answers
            self._provide_scratch(now_s)
            self._absence.run(now_s)
            self._run_look_ups(now_s)
            self._run_background(now_s, budget_s)
            self._rate.note(self._ladder.bytes, now_s)
            if self._ladder.answers != answers or self._builder.running:
                self._moved_s = now_s
            if self.complete:
                self.close()
            self.stalled = self._why_stalled(now_s)
        resolved, self._resolved = self._resolved, set()
        return resolved

    def progress(self) -> MigrationProgress:
        """How far it has come."""
        return MigrationProgress(
            phase=self._phase(),
            hot_keys=self._background.hot_keys,
            bins_done=sum(map(self.store.has_bin, range(BIN_COUNT))),
            bins_total=BIN_COUNT,
            entries=self._background.entries,
            bytes=self._ladder.bytes,
            look_ups=self._look_ups.sent,
            keys_fetched=self._look_ups.fetched,
            keys_waiting=self._look_ups.wanted,
            keys_asked=self.store.asked,
            local_hits=self.store.asked - self.store.missing,
            rate=self._rate.value,
            started_s=self._started_s,
            stalled=self.stalled,
            keys_excluded=self._absence.excluded,
        )

    def close(self) -> None:
        """Ask and install nothing more, and let go of the scratch base; the task's store stays open."""
        self._closed = True
        self._look_ups.clear()
        self._builder.close()
        scratch, self._ladder.scratch = self._ladder.scratch, None
        if scratch is not None:
            scratch.close()

    @property
    def _works(self) -> bool:
        return not (self._closed or self.superseded or self.complete)

    def _provide_scratch(self, now_s: float) -> None:
        ladder, background = self._ladder, self._background
        if ladder.scratch is not None:
            return
        wanted = self._look_ups.wanted or background.active or background.wanted
        if self._look_ups.lacks_scratch or background.lacks_scratch or (ladder.unreliable and wanted):
            self._builder.want(now_s)
        ladder.scratch = self._builder.poll(now_s)

    def _run_look_ups(self, now_s: float) -> None:
        """Ask and take up until nothing more is there: an unknown key goes to the next layer without delay."""
        self._look_ups.send(now_s)
        while self._look_ups.over(now_s):
            pairs = self._look_ups.receive(now_s)
            self.store.install(pairs)
            self._resolved |= self._look_ups.settle(key for key, _ in pairs)
            self._look_ups.send(now_s)

    def _run_background(self, now_s: float, budget_s: float) -> None:
        background, clock = self._background, self._clock
        began_s = clock.monotonic_s()
        installed = False
        while True:
            background.receive(now_s)
            if background.wanted or self._pace.may_work(now_s):
                background.ask(now_s)
            spent_s = clock.monotonic_s() - began_s
            if budget_s <= 0 or not background.waiting or (installed and spent_s >= budget_s):
                return
            self._resolved |= background.install()
            installed = True
            ended_s = clock.monotonic_s() - began_s
            self._pace.worked(now_s + ended_s, ended_s - spent_s)

    def _why_stalled(self, now_s: float) -> str | None:
        still_s = now_s - self._moved_s
        wanted = self._look_ups.wanted or self._background.active or self._background.wanted
        if not self._works or not wanted or still_s < self._limits.stall_s:
            return None
        missing = BIN_COUNT - sum(map(self.store.has_bin, range(BIN_COUNT)))
        return (
            f"the state of {self.task}@{self.epoch} has not moved for {still_s:.0f} s: {self._look_ups.wanted} keys "
            f"are waited for, {missing} bins are missing; asked: {self._ladder.describe() or 'no holder'}; scratch "
            f"base: {self._builder.error or 'none'}; check that these state managers run and can be "
            "reached, and that the changelog can be read"
        )

    def _phase(self) -> str:
        if self.complete:
            return "complete"
        if self.superseded:
            return "superseded: the task belongs to another owner"
        if self._builder.running:
            return "making a scratch base from the changelog"
        if self._background.fetches_hot:
            return "hot keys"
        return "bins" if self._background.active else "on demand"
