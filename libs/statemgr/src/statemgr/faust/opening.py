"""How a partition's store begins when a rebalance gives the partition to this worker.

::

    own copies ─┐
                ├─▶ ranked ─▶ best one proven by the changelog? ─▶ own: copied by hard links, and gone on with
    announced ──┘                        │                         another's: an empty layer over it, filled meanwhile
                                         └─ none ─▶ an empty store, which Faust recovers from the beginning
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from statemgr.clock import Clock
from statemgr.control.records import Layer
from statemgr.errors import StateError
from statemgr.faust.decide import Candidate, Log, flaw, proves, ranked
from statemgr.faust.limits import DESCRIBE_S
from statemgr.faust.logs import Announcements, Changelogs
from statemgr.faust.records import MAX_LAYERS
from statemgr.migration.layered import begin, record_of, reopen
from statemgr.migration.ports import Address, Description, Pending, StateClient
from statemgr.migration.record import is_complete
from statemgr.migration.sources import UsableLayer
from statemgr.store.base import EMPTY_OFFSET, Store, StoreMeta
from statemgr.store.rocks_backend import RocksBackend
from statemgr.types import TaskId

log = logging.getLogger(__name__)

LOOK_S = 0.002
"""Between two looks for answers of state managers."""

_WITNESS_TRIES = 3
"""Copies of a partition that are compared with the changelog, at most: an own one and those announced."""


STANDBY = ".standby"
"""Behind a changelog's name: the name under which stores are kept of partitions whose events are processed
elsewhere."""


def standby_task(task: TaskId) -> TaskId:
    """Under whose name a partition's store is kept while its events are processed elsewhere."""
    return TaskId(task.stage + STANDBY, task.partition)


@dataclass(frozen=True)
class Wanted:
    """A partition to be opened.

    Attributes:
        task: it.
        active: whether its events are processed here.
        elsewhere: whether other workers' copies may be its base.
        adrift: its changelog is assigned to nobody, so that Faust does not recover it. That is so when a topic has just
            been made and Kafka's members have not heard of it.
    """

    task: TaskId
    active: bool
    elsewhere: bool
    adrift: bool = False

    @property
    def place(self) -> TaskId:
        """Under whose name its store lies."""
        return self.task if self.active else standby_task(self.task)


@dataclass(frozen=True)
class Base:
    """What a store is to be made of.

    Attributes:
        candidate: the copy.
        own: under whose name an own copy lies; None: it is another's.
        sources: copies to be asked for what is missing, newest first.
    """

    candidate: Candidate
    own: TaskId | None
    sources: tuple[UsableLayer, ...]


@dataclass(frozen=True)
class Opened:
    """A store that is open.

    Attributes:
        wanted: for what.
        epoch: of the store.
        store: it.
        sources: copies to be asked for what is missing, newest first; none: nothing is missing.
        base: what it was made of, in words.
        last: offset of the changelog's last record then; -1: unknown or none.
    """

    wanted: Wanted
    epoch: int
    store: Store
    sources: tuple[UsableLayer, ...]
    base: str
    last: int = -1


class Opener:
    """Finds bases, and opens stores over them.

    Args:
        backend: this worker's stores.
        holder: their name.
        changelogs: asks Kafka.
        announcements: where other copies are.
        client: asks state managers.
        clock: time.
    """

    def __init__(
        self,
        backend: RocksBackend,
        holder: str,
        changelogs: Changelogs,
        announcements: Announcements,
        client: StateClient,
        clock: Clock,
    ) -> None:
        self._backend = backend
        self._holder = holder
        self._changelogs = changelogs
        self._announcements = announcements
        self._client = client
        self._clock = clock

    async def open(self, wanted: Sequence[Wanted], generation: int) -> list[Opened]:
        """Open these, each with the best base there is.

        Raises:
            StoreWriteError, StoreLockedError, OSError: a store can't be made at all.
        """
        elsewhere = any(each.elsewhere for each in wanted)
        logs, _ = await asyncio.gather(
            self._changelogs.bounds(each.task for each in wanted),
            self._announcements.up_to_date() if elsewhere else asyncio.sleep(0),
        )
        bases = await self._bases([each for each in wanted if not each.adrift], logs)
        return [
            self._adrift(each, logs.get(each.task), generation)
            if each.adrift
            else self._opened(each, bases.get(each.task), logs.get(each.task), generation)
            for each in wanted
        ]

    def open_empty(self, wanted: Wanted, generation: int, reason: str) -> Opened:
        """Open a new store that Faust is to recover into.

        Raises:
            StoreWriteError, StoreLockedError, OSError: it can't be made.
        """
        epoch = self._epoch(wanted, generation, ())
        return Opened(wanted, epoch, self._backend.open(wanted.place, epoch), (), f"the changelog: {reason}")

    def _adrift(self, wanted: Wanted, log_: Log | None, generation: int) -> Opened:
        """An empty store where the changelog is empty; else one over a changelog that is read beside it."""
        if log_ is not None and log_.start == log_.end:
            return self.open_empty(wanted, generation, "it is new")
        epoch = self._epoch(wanted, generation, ())
        nothing = StoreMeta("", EMPTY_OFFSET, self._clock.wall_ms(), epoch, None)
        store = begin(self._backend.open(wanted.place, epoch), [], nothing)
        return Opened(wanted, epoch, store, (), "the changelog, which is assigned to nobody and read beside it")

    async def _bases(self, wanted: Sequence[Wanted], logs: dict[TaskId, Log]) -> dict[TaskId, Base]:
        offered: dict[TaskId, list[Base]] = {each.task: self._own(each) for each in wanted}
        asked = [self._others(each.task, logs[each.task]) for each in wanted if each.elsewhere and each.task in logs]
        for found in await asyncio.gather(*asked):
            for task, base in found:
                offered[task].append(base)
        return await self._proven(offered, logs)

    async def _proven(self, offered: dict[TaskId, list[Base]], logs: dict[TaskId, Log]) -> dict[TaskId, Base]:
        """For each partition the best copy whose last record is the changelog's."""
        chosen: dict[TaskId, Base] = {}
        for _ in range(_WITNESS_TRIES):
            best = {task: base for task, bases in offered.items() if (base := self._best(bases, logs.get(task)))}
            found = await self._changelogs.witnesses({task: base.candidate.offset for task, base in best.items()})
            for task, base in best.items():
                meta = base.candidate.meta
                if meta is not None and proves(meta.topic_id, found.get(task)):
                    chosen[task] = base
                    offered.pop(task)
                else:
                    log.warning(
                        "%s is no base: the changelog's record at its end is another, or gone", _name(task, base)
                    )
                    offered[task].remove(base)
            if not any(offered.values()):
                break
        return chosen

    def _best(self, bases: list[Base], log_: Log | None) -> Base | None:
        now_ms = self._clock.wall_ms()
        for base in list(bases):
            reason = flaw(base.candidate, log_, now_ms)
            if reason is not None:
                log.info(
                    "copy @%d of %s is no base: %s", base.candidate.layer.epoch, base.candidate.layer.holder, reason
                )
                bases.remove(base)
        order = ranked((each.candidate for each in bases), log_, now_ms)
        return next((each for each in bases if order and each.candidate is order[0]), None)

    def _own(self, wanted: Wanted) -> list[Base]:
        """The newest copies on this disk: of the partition as active, and as standby."""
        found = []
        for place in (wanted.task, standby_task(wanted.task)):
            for epoch in self._backend.existing(place)[-1:]:
                with suppress(StateError, OSError):
                    found.append(self._look_at(place, epoch))
        return found

    def _look_at(self, place: TaskId, epoch: int) -> Base:
        store = self._backend.open(place, epoch)
        try:
            record = record_of(store)
            candidate = Candidate(Layer(self._holder, epoch), own=True, meta=store.meta(), complete=record is None)
        finally:
            store.close()
        layers = () if record is None else record.layers
        sources = tuple(
            UsableLayer(layer, least=record.beneath if record is not None and not place_ else -1)
            for place_, layer in enumerate(layers[:MAX_LAYERS])
        )
        return Base(candidate, place, sources)

    async def _others(self, task: TaskId, log_: Log) -> list[tuple[TaskId, Base]]:
        """What the state managers of announced copies say of them."""
        record = self._announcements.directory.copies.get(task)
        layers = [] if record is None else [each for each in record.copies if each.holder != self._holder]
        said = await asyncio.gather(*(self._described(task, each, log_.end - 1) for each in layers))
        return [
            (task, _offer(layer, description))
            for layer, description in zip(layers, said, strict=True)
            if description is not None
        ]

    async def _described(self, task: TaskId, layer: Layer, last: int) -> Description | None:
        """A copy as it is, if possible when it has come to the changelog's end."""
        address = Address(task, layer, 2**31)
        try:
            description = await _answer(self._client.describe(address, -1, 4 * DESCRIBE_S))
        except StateError as error:
            log.info("copy %s@%d of %s is not there: %s", task, layer.epoch, layer.holder, error)
            return None
        if description.meta is not None and description.meta.offset < last:
            with suppress(StateError):
                description = await _answer(self._client.describe(address, last, DESCRIBE_S))
        return description

    def _opened(self, wanted: Wanted, base: Base | None, log_: Log | None, generation: int) -> Opened:
        if base is None:
            return self.open_empty(wanted, generation, "no copy is known to be a base")
        epoch = self._epoch(wanted, generation, base.sources)
        behind = log_.end - 1 - base.candidate.offset if log_ is not None else 0
        words = f"{_name(wanted.task, base)}, {behind} records behind"
        last = log_.end - 1 if log_ is not None else -1
        try:
            store = self._based(wanted, base, epoch)
        except StateError as error:
            log.warning("%s can't be used: %s", words, error)
            return self.open_empty(wanted, generation, "the copy that was chosen can't be used")
        return Opened(wanted, epoch, store, base.sources, words, last)

    def _based(self, wanted: Wanted, base: Base, epoch: int) -> Store:
        meta = base.candidate.meta
        if base.own is None and meta is not None:
            layers = [each.layer for each in base.sources]
            return begin(self._backend.open(wanted.place, epoch), layers, msgspec.structs.replace(meta, epoch=epoch))
        source = base.own or wanted.place
        self._backend.copy(source, base.candidate.layer.epoch, wanted.place, epoch)
        return reopen(self._backend.open(wanted.place, epoch))

    def _epoch(self, wanted: Wanted, generation: int, sources: Iterable[UsableLayer]) -> int:
        """Behind everything of the partition here, and behind what it is made of; else the group's generation."""
        known = [*self._backend.existing(wanted.place), *(each.layer.epoch for each in sources)]
        return max([generation, *(each + 1 for each in known)])


def _offer(layer: Layer, description: Description) -> Base:
    complete = is_complete(description.complete)
    candidate = Candidate(layer, own=False, meta=description.meta, complete=complete)
    below = () if complete else description.layers[: MAX_LAYERS - 1]
    sources = [UsableLayer(layer, candidate.offset, description.complete, candidate.offset)]
    sources += [UsableLayer(each, least=description.beneath if not place else -1) for place, each in enumerate(below)]
    return Base(candidate, None, tuple(sources))


def _name(task: TaskId, base: Base) -> str:
    layer = base.candidate.layer
    whose = "own copy" if base.own is not None else f"copy of {layer.holder},"
    return f"{whose} {task}@{layer.epoch} up to {base.candidate.offset}"


async def _answer(pending: Pending[Description]) -> Description:
    while not pending.done():
        await asyncio.sleep(LOOK_S)
    return pending.result()
