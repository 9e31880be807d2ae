"""What all tables of a Faust worker share: its directory, its state manager, its connections, its partitions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from mode import Service

from statemgr.clock import SystemClock
from statemgr.control.records import Layer, Manner, Strategy
from statemgr.errors import StateError
from statemgr.faust import limits
from statemgr.faust.beside import Beside
from statemgr.faust.bounded import BoundedClient
from statemgr.faust.connection import Connection
from statemgr.faust.environment import Environment
from statemgr.faust.errors import StateUnavailableError
from statemgr.faust.images import Image
from statemgr.faust.logs import Announcements, Changelogs
from statemgr.faust.monitor import LoopDelay, PartitionReport, Report, rss_bytes
from statemgr.faust.opening import STANDBY, Opened, Opener, standby_task
from statemgr.faust.partitions import Partitions, TableState
from statemgr.faust.pulse import TICK_S, Pulse
from statemgr.faust.rebuild import rebuild
from statemgr.faust.records import Announcement, Holder, encode, key_of, topic_name
from statemgr.faust.slots import Slot, take_slot
from statemgr.faust.tenure import Tenure, unanswered
from statemgr.migration.job import MigrationJob
from statemgr.migration.layered import LayeredStore
from statemgr.migration.ports import Address
from statemgr.sidecar.client import GrpcStateClient
from statemgr.store import directories
from statemgr.store.rocks_backend import RocksBackend
from statemgr.store.rocks_options import RocksSettings
from statemgr.types import TaskId

log = logging.getLogger(__name__)

MANNER = Manner(Strategy.HYBRID, pacing=limits.PACING, bins=64)
"""How state travels: hot keys, then bins in 64 units, and whatever is asked for at once."""

REBUILDS = 4
"""Changelog partitions that are read again at once."""

ACK_LOOK_S = 0.005
"""Between two looks whether everything is acknowledged."""

REFRESH_S = 5.0
"""Between two looks whether the state manager still serves; one costs some ms of a thread."""

START_LOOK_S = 0.5
"""And while it starts."""

_ANY_TARGET = 2**31
"""Of a question that no tenure asks."""

_workers: WeakKeyDictionary[Any, Worker] = WeakKeyDictionary()


def worker_of(app: Any) -> Worker:
    """The one worker of an application, made at the first use."""
    if app not in _workers:
        _workers[app] = Worker(app)
    return _workers[app]


class Worker(Service):
    """See the module; a service below the application, which stops it before its consumer leaves the group.

    Args:
        app: the Faust application.
    """

    def __init__(self, app: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.app = app
        self.loop_delay = LoopDelay()
        self.environment = Environment.of(app)
        self._clock = SystemClock()
        self._pulse = Pulse(_patience_s(app), self._clock.monotonic_s)
        self._starting = asyncio.Lock()
        self._tables: dict[str, TableState] = {}
        self._partitions: Partitions | None = None
        self._outbox: asyncio.Queue[Announcement] = asyncio.Queue()
        self._flush_at: asyncio.TimerHandle | None = None
        self._arriving = asyncio.Event()
        self._address = ""

    async def ensure(self) -> None:
        """Have it started, whoever comes first: a table's start, or a rebalance."""
        async with self._starting:
            if not self.started:
                await self.app.add_runtime_dependency(self)
                await self.maybe_start()

    async def on_start(self) -> None:
        """See :meth:`mode.Service.on_start`."""
        self._slot: Slot = await asyncio.to_thread(take_slot, self.environment.directory)
        memory = RocksSettings(limits.STATE_CACHE_BYTES, limits.STATE_WRITE_BUFFER_BYTES)
        self._backend = RocksBackend(self._slot.directory, memory)
        credentials = self.environment.credentials
        self._beside = Beside(self._slot.directory, self.environment.manners, credentials)
        self._connection = Connection.of(self.app)
        self._changelogs = Changelogs(self._connection)
        self._topic = self.app.topic(
            topic_name(self.app.conf.id), partitions=1, compacting=True, deleting=False, internal=True, acks=False
        )
        self._announcements = Announcements(self._connection, topic_name(self.app.conf.id))
        self._client = GrpcStateClient(self._announcements.directory.address_of, credentials)
        self._pool = ThreadPoolExecutor(REBUILDS, thread_name_prefix="statemgr")
        opener = Opener(
            self._backend, self._slot.holder, self._changelogs, self._announcements, self._client, self._clock
        )
        self._partitions = Partitions(
            self._tables, opener, self._job, self._slot.holder, self._clock, self._outbox.put_nowait
        )
        self.app.on_partitions_revoked.connect(self._revoked)
        self._pulse.start()
        works = [self._advance, self._tidy, self.loop_delay.run]
        if any(table.claims for table in self._tables.values()):
            await self._topic.maybe_declare()
            await self._changelogs.start()
            works += [self._announcements.run, self._send, self._watch]
        for work in works:
            self.add_future(self._guarded(work))

    @property
    def partitions(self) -> Partitions:
        """Those of all tables; once it has started."""
        if self._partitions is None:
            raise RuntimeError("the driver of the tables has not started")
        return self._partitions

    def add(self, table: TableState) -> None:
        """Look after a table from now on."""
        self._tables[table.topic] = table

    async def prepare(self, table: TableState, generation: int) -> None:
        """Have the partitions of a table that the group has given to this worker."""
        await self.ensure()
        assignor = self.app.assignor
        adrift = not any(table.topic in topics for topics in assignor.tables_metadata().values())
        topics = self.app.topics.acking_topics if adrift else {table.topic}
        active = {tp.partition for tp in assignor.assigned_actives() if tp.topic in topics}
        standby = {tp.partition for tp in assignor.assigned_standbys() if tp.topic == table.topic}
        await self.partitions.prepare(table, active, standby, generation, adrift=adrift)
        self._arriving.set()

    def acknowledged(self) -> None:
        """A change may be written; the batch goes out a moment later."""
        if self._flush_at is None:
            self._flush_at = self.loop.call_later(limits.FLUSH_S, self._flush)

    def check(self) -> None:
        """Refuse to touch a table where the partitions may be another worker's by now.

        Raises:
            StateUnavailableError: this process has stood still for too long.
        """
        stood_s = self._pulse.stood_still_s()
        if stood_s:
            raise StateUnavailableError(
                f"this worker has stood still for {stood_s:.1f} s, so its partitions may be another's by now"
            )

    def give_up(self, error: StateError) -> None:
        """Stop the worker, because an event can't be processed here; the event has not been acknowledged."""
        log.critical("this worker stops: %s", error)
        asyncio.ensure_future(self.app.crash(error))  # noqa: RUF006 - the application ends with it

    def report(self) -> Report:
        """How things are."""
        waits = self.partitions.waits
        tenures = list(self.partitions.tenures())
        return Report(
            holder=self._slot.holder,
            state_manager=self._address,
            rss_bytes=rss_bytes(),
            loop_delay_p99_ms=self.loop_delay.p99_ms,
            loop_delay_max_ms=self.loop_delay.max_ms,
            waits=waits.count,
            waits_s=waits.total_s,
            longest_wait_s=waits.longest_s,
            active=tuple(self._describe(each) for each in tenures if each.active),
            standby=tuple(self._describe(each) for each in tenures if not each.active),
        )

    async def on_stop(self) -> None:
        """See :meth:`mode.Service.on_stop`; Faust has flushed its producer by then."""
        if self._partitions is None:  # it has not started
            return
        self._pulse.stop()
        if self._flush_at is not None:
            self._flush_at.cancel()
        await self._answered()
        with suppress(StateError):
            self.partitions.freeze()
        self.partitions.close()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._client.close()
        await self._changelogs.stop()
        self._backend.close()
        self._slot.leave()

    async def _revoked(self, _app: Any, _revoked: Any, **_kwargs: Any) -> None:
        """All partitions are revoked in every rebalance; those that stay are given back in :meth:`prepare`."""
        await self._answered()
        self.partitions.freeze()
        for tenure in self.partitions.tenures():
            if tenure.active and self._address:  # its state manager opens the copy before a newcomer waits for it
                own = Layer(self._slot.holder, tenure.epoch, self._address)
                self._client.describe(Address(tenure.task, own, _ANY_TARGET), -1, limits.HOLDER_LIMIT_S)

    async def _answered(self) -> None:
        """Wait until the changelogs have acknowledged what was sent; what comes later is not in the stores."""
        deadline_s = self._clock.monotonic_s() + limits.ACKS_LIMIT_S
        while unanswered(list(self.partitions.tenures())) and self._clock.monotonic_s() < deadline_s:
            await asyncio.sleep(ACK_LOOK_S)

    def _flush(self) -> None:
        self._flush_at = None
        try:
            self.partitions.flush()
        except StateError as error:
            self.give_up(error)

    def _job(self, opened: Opened, image: Image) -> MigrationJob | None:
        store, wanted = opened.store, opened.wanted
        if not isinstance(store, LayeredStore):
            return None

        def again() -> Any:
            args = (self._connection, wanted.task, opened.epoch, self._backend, image, self._clock)
            return rebuild(*args, lambda: job.closed or self.should_stop)

        job = MigrationJob(
            wanted.task,
            opened.epoch,
            store,
            opened.sources,
            BoundedClient(self._client, opened.last),
            self._clock,
            MANNER,
            lambda work: self._pool.submit(work),
            again,
            limits.LIMITS,
        )
        return job

    def _describe(self, tenure: Tenure) -> PartitionReport:
        return PartitionReport(
            topic=tenure.task.stage,
            partition=tenure.task.partition,
            base=self.partitions.bases[tenure.task, tenure.active],
            generation=tenure.generation,
            offset=tenure.offset,
            unwritten=len(tenure.changes),
            migration=None if tenure.job is None else tenure.job.progress(),
        )

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        """Work that goes on until the end; what ends it otherwise ends the worker, too."""
        try:
            await work()
        except Exception as error:  # whatever it is: without this work tables are wrong or late
            log.exception("the driver of the tables can't go on")
            await self.app.crash(error)

    async def _advance(self) -> None:
        while True:
            await self._arriving.wait()
            if not self.partitions.advance():
                self._arriving.clear()
            await asyncio.sleep(limits.TURN_S)

    async def _send(self) -> None:
        while True:
            record = await self._outbox.get()
            await self._topic.send(
                key=key_of(record),
                value=encode(record),
                partition=0,
                key_serializer="raw",
                value_serializer="raw",
                force=True,
            )

    async def _watch(self) -> None:
        """Have a state manager, and tell where it is."""
        while True:
            address = await asyncio.to_thread(self._beside.ensure)
            if address and address != self._address:
                self._address = address
                self._outbox.put_nowait(Holder(self._slot.holder, address))
            await asyncio.sleep(REFRESH_S if self._address else START_LOOK_S)

    async def _tidy(self) -> None:
        """Delete copies that neither this worker uses nor the newest owner of their partition."""
        while True:
            await asyncio.sleep(limits.TIDY_S)
            for task, epoch in self._superseded():
                log.info("copy %s@%d is not needed any more", task, epoch)
                with suppress(StateError, OSError):
                    await asyncio.to_thread(self._backend.destroy, task, epoch)

    def _superseded(self) -> list[tuple[TaskId, int]]:
        directory, holder = self._announcements.directory, self._slot.holder
        held = {
            (tenure.task if tenure.active else standby_task(tenure.task), tenure.epoch)
            for tenure in self.partitions.tenures()
        }
        known = self.partitions.prepared
        return [
            (task, epoch)
            for task, epoch in directories.stores_under(self._slot.directory)
            if task.stage.removesuffix(STANDBY) in known
            and (task, epoch) not in held
            and not directory.lists(task, holder, epoch)
        ]


def _patience_s(app: Any) -> float:
    """A pause after which the group may have expelled a worker: its last heartbeat may be one interval older."""
    return float(app.conf.broker_session_timeout) - float(app.conf.broker_heartbeat_interval) - TICK_S
