"""Holders with real stores and real state managers, a network that a test controls, and an owner's job."""

from __future__ import annotations

from collections.abc import Callable

from statemgr.clock import Clock
from statemgr.control.records import Assigned, Layer, Manner, Strategy, control_key, encode_control
from statemgr.control.view import ControlView
from statemgr.errors import HolderUnavailableError
from statemgr.layout import changelog_key, store_key
from statemgr.migration.job import MigrationJob
from statemgr.migration.layered import LayeredStore, begin
from statemgr.migration.limits import MigrationLimits
from statemgr.migration.record import NO_BINS
from statemgr.migration.sources import ScratchSource, UsableLayer
from statemgr.progress import InputProgress, Progress
from statemgr.sidecar.direct import DirectStateClient
from statemgr.sidecar.readers import MemoryReaders
from statemgr.sidecar.service import ServiceSettings, StateService
from statemgr.store import MemoryBackend, StoreMeta
from statemgr.testing.clock import ManualClock
from statemgr.types import TaskId

TASK = TaskId("count", 0)


def name_of(number: int) -> bytes:
    """Store key of a test's key."""
    return store_key(changelog_key(1, b"k%d" % number))


def meta(offset: int, epoch: int = 1, committed_at_ms: int = 1_700_000_000_000) -> StoreMeta:
    return StoreMeta("T", offset, committed_at_ms, epoch, Progress(epoch, {"bids": InputProgress(offset, offset)}))


def at_once(work: Callable[[], object]):
    """Runs the work within the call."""
    return Later(work, lambda: True)


IMPATIENT = MigrationLimits(patience_s=0.0)
"""A scratch base from the second failure on, so that a test needs few turns."""


class Later:
    """An answer that comes when ``come`` says so; the work is done when it is looked at first."""

    def __init__(self, work: Callable[[], object], come: Callable[[], bool]) -> None:
        self._work = work
        self._come = come
        self._outcome: tuple[object, Exception | None] | None = None

    def done(self) -> bool:
        if self._outcome is None and self._come():
            try:
                self._outcome = self._work(), None
            except Exception as error:  # noqa: BLE001 - raised again by result()
                self._outcome = None, error
        return self._outcome is not None

    def result(self):
        assert self.done()
        value, error = self._outcome
        if error is not None:
            raise error
        return value


class Network:
    """A :class:`~statemgr.migration.ports.StateClient` that keeps a record, delays, loses and garbles."""

    def __init__(self, inner: DirectStateClient, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock
        self.calls: list[tuple[str, str, int]] = []
        self.cut: set[str] = set()
        self.delay_s = 0.0
        self.garble: Callable[[object], object] = lambda answer: answer

    def count(self, call: str) -> int:
        return sum(name == call for name, _, _ in self.calls)

    def describe(self, address, at_least, timeout_s):
        return self._send("describe", address, 1, lambda: self._inner.describe(address, at_least, timeout_s))

    def look_up(self, address, at_least, keys, timeout_s):
        return self._send(
            "look_up", address, len(keys), lambda: self._inner.look_up(address, at_least, keys, timeout_s)
        )

    def hot(self, address, at_least, cursor, timeout_s):
        return self._send("hot", address, 1, lambda: self._inner.hot(address, at_least, cursor, timeout_s))

    def bins(self, address, at_least, first, last, cursor, timeout_s):
        return self._send(
            "bins",
            address,
            1 + last - first,
            lambda: self._inner.bins(address, at_least, first, last, cursor, timeout_s),
        )

    def filter(self, address, at_least, timeout_s):
        return self._send("filter", address, 1, lambda: self._inner.filter(address, at_least, timeout_s))

    def close(self):
        self._inner.close()

    def _send(self, call, address, size, work):
        holder = address.layer.holder
        self.calls.append((call, holder, size))
        comes_s = self._clock.monotonic_s() + self.delay_s
        answer = work() if self.delay_s == 0 else None  # else: as of when it arrives

        def finish():
            if holder in self.cut:
                raise HolderUnavailableError(f"no answer from {holder}")
            return self.garble((answer or work()).result())

        return Later(finish, lambda: self._clock.monotonic_s() >= comes_s)


class World:
    """Replicas' disks with their state managers, one control log, one task."""

    def __init__(self, *, chunk_bytes: int = 1 << 18, look_up_bytes: int = 1 << 20) -> None:
        self.clock = ManualClock()
        self.view = ControlView()
        self.disks: dict[str, MemoryBackend] = {}
        self.services: dict[str, StateService] = {}
        self._settings = ServiceSettings(chunk_bytes=chunk_bytes, look_up_bytes=look_up_bytes)
        self.network = Network(DirectStateClient(self.services), self.clock)
        self.truth: dict[bytes, bytes] = {}
        self.built = 0

    def disk(self, replica: str) -> MemoryBackend:
        if replica not in self.disks:
            self.disks[replica] = MemoryBackend()
            self.services[replica] = StateService(
                MemoryReaders(self.disks[replica]), lambda: self.view, self.clock, replica, settings=self._settings
            )
        return self.disks[replica]

    def assign(self, owner: str, epoch: int, layers: tuple[Layer, ...]) -> None:
        record = Assigned(TASK.stage, 0, epoch, owner, (), layers, Manner(), 1)
        self.view.apply(self.view.next_offset, control_key(record), encode_control(record))

    def holder(self, replica: str, epoch: int, entries: dict[bytes, bytes], offset: int = 10) -> Layer:
        """A complete copy."""
        store = self.disk(replica).open(TASK, epoch)
        store.write(entries.items(), meta(offset, epoch))
        store.close()
        return Layer(replica, epoch)

    def over(self, replica: str, epoch: int, layers: tuple[Layer, ...], offset: int = 10) -> LayeredStore:
        """A new owner's store over some layers."""
        self.assign(replica, epoch, layers)
        return begin(self.disk(replica).open(TASK, epoch), layers, meta(offset, epoch))

    def job(
        self,
        store: LayeredStore,
        layers: tuple[Layer, ...],
        manner: Manner | None = None,
        *,
        epoch: int = 2,
        offset: int = 10,
        complete: bytes = NO_BINS,
        scratch: Callable[[], ScratchSource] | None = None,
        spawn=at_once,
        limits: MigrationLimits = IMPATIENT,
    ) -> MigrationJob:
        sources = [UsableLayer(layer, offset, complete) for layer in layers]
        return MigrationJob(
            TASK,
            epoch,
            store,
            sources,
            self.network,
            self.clock,
            manner or Manner(strategy=Strategy.LAZY),
            spawn,
            scratch or self.no_scratch,
            limits,
        )

    def no_scratch(self) -> ScratchSource:
        raise AssertionError("no scratch base is needed here")

    def scratch_of(self, entries: dict[bytes, bytes], epoch: int = 2) -> Callable[[], ScratchSource]:
        def build() -> ScratchSource:
            self.built += 1
            store = MemoryBackend().open(TaskId("scratch", 0), epoch)
            store.write(entries.items(), meta(10, epoch))
            return ScratchSource(store, epoch, 10)

        return build

    def poll(self, job: MigrationJob, seconds: float = 0.0, budget_s: float = 1.0) -> set[bytes]:
        self.clock.advance(seconds)
        return job.poll(self.clock.monotonic_s(), budget_s)

    def finish(self, job: MigrationJob, steps: int = 5000, step_s: float = 0.01) -> None:
        for _ in range(steps):
            if job.complete:
                return
            self.poll(job, step_s)
        raise AssertionError(f"not complete: {job.progress()}")


def content(store) -> dict[bytes, bytes]:
    with store.scan() as pairs:
        return dict(pairs)
