"""The changelog partitions of a worker's tables, from rebalance to rebalance.

::

    revoked    every store is written and frozen
    assigned   kept: goes on · gone, or with another role: closed, its copy stays for others · new: opened
    running    acknowledged changes go to the stores; state that is elsewhere arrives
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from statemgr.clock import Clock
from statemgr.control.records import Layer
from statemgr.faust.images import Image
from statemgr.faust.limits import HOT_S, INSTALL_BUDGET_S
from statemgr.faust.opening import Opened, Opener, Wanted
from statemgr.faust.records import MAX_LAYERS, Copies
from statemgr.faust.tenure import Tenure, Waits
from statemgr.migration.job import MigrationJob
from statemgr.types import TaskId

log = logging.getLogger(__name__)


@dataclass(eq=False)
class TableState:
    """A table as the driver sees it.

    Attributes:
        topic: its changelog.
        image: how records become entries.
        elsewhere: whether state may be taken from other workers, and is kept for them. Not with transactions, where an
            acknowledged record may still be undone; and not for global tables, which every worker has whole.
        claims: whether a store is a base later.
        tenures: partition → ours.
    """

    topic: str
    image: Image
    elsewhere: bool = True
    claims: bool = True
    tenures: dict[int, Tenure] = field(default_factory=dict)


MakeJob = Callable[[Opened, Image], MigrationJob | None]
"""Makes what brings a new store's missing state; None: nothing is missing."""


class Partitions:
    """See the module.

    Args:
        tables: changelog → table, to which others are added.
        opener: opens stores.
        make_job: see there.
        holder: name of this worker's stores.
        clock: time.
        announce: tells other workers.

    Attributes:
        waits: how long tables have waited.
        bases: partition and role → what its state was made of.
        prepared: changelogs of tables that have been through a rebalance.
    """

    def __init__(
        self,
        tables: Mapping[str, TableState],
        opener: Opener,
        make_job: MakeJob,
        holder: str,
        clock: Clock,
        announce: Callable[[Copies], None],
    ) -> None:
        self.waits = Waits()
        self.bases: dict[tuple[TaskId, bool], str] = {}
        self.prepared: set[str] = set()
        self._opener = opener
        self._make_job = make_job
        self._holder = holder
        self._clock = clock
        self._announce = announce
        self._tables = tables
        self._hot_s = clock.monotonic_s()

    def tenures(self) -> Iterator[Tenure]:
        """All of them."""
        for table in self._tables.values():
            yield from table.tenures.values()

    async def prepare(
        self, table: TableState, active: set[int], standby: set[int], generation: int, *, adrift: bool = False
    ) -> None:
        """Have exactly these partitions of a table.

        Args:
            table: it.
            active: partitions whose events are processed here.
            standby: partitions that are kept for later.
            generation: of the consumer group.
            adrift: the table's changelog is assigned to nobody, see :class:`statemgr.faust.opening.Wanted`.

        Raises:
            StateError, OSError: a store can't be opened at all.
        """
        roles = dict.fromkeys(standby - active, False) | dict.fromkeys(active, True)
        for partition, tenure in list(table.tenures.items()):
            if roles.get(partition) is tenure.active:
                tenure.thaw()
                del roles[partition]
            else:
                del table.tenures[partition]
                tenure.close()
        wanted = [
            Wanted(TaskId(table.topic, partition), role, elsewhere=role and table.elsewhere, adrift=adrift)
            for partition, role in sorted(roles.items())
        ]
        if not wanted:
            return
        if table.claims or adrift:
            opened = await self._opener.open(wanted, generation)
        else:
            opened = [
                self._opener.open_empty(each, generation, "with transactions there is no other") for each in wanted
            ]
        for each in opened:
            self._begin(table, each, generation)
        self.prepared.add(table.topic)

    def freeze(self) -> None:
        """Write everything that is acknowledged, and then nothing more."""
        for tenure in self.tenures():
            tenure.freeze()
            if tenure.active:
                tenure.note_hot()

    def flush(self) -> None:
        """Write everything that is acknowledged."""
        for tenure in self.tenures():
            tenure.flush()

    def advance(self) -> bool:
        """Take up what has come; whether anything is still on its way."""
        now_s = self._clock.monotonic_s()
        arriving = [tenure for tenure in self.tenures() if not tenure.complete]
        for tenure in arriving:
            if tenure.advance(now_s, INSTALL_BUDGET_S / len(arriving)):
                log.info("%s needs no other copy any more", tenure.task)
                self._tell(tenure, ())
        if now_s - self._hot_s >= HOT_S:
            self._hot_s = now_s
            for tenure in self.tenures():
                if tenure.active:
                    tenure.note_hot()
        return any(not tenure.complete for tenure in arriving)

    def close(self) -> None:
        """Close all; copies stay for others."""
        for table in self._tables.values():
            for tenure in table.tenures.values():
                tenure.close()
            table.tenures.clear()

    def _begin(self, table: TableState, opened: Opened, generation: int) -> None:
        task, active = opened.wanted.task, opened.wanted.active
        job = self._make_job(opened, table.image)
        table.tenures[task.partition] = Tenure(
            task,
            opened.epoch,
            generation,
            opened.store,
            job,
            table.image,
            self._clock,
            self.waits,
            active=active,
            claims=table.claims,
        )
        self.bases[task, active] = opened.base
        log.info("%s (%s) begins with %s", task, "active" if active else "standby", opened.base)
        if table.elsewhere:
            self._tell(table.tenures[task.partition], tuple(each.layer for each in opened.sources))

    def _tell(self, tenure: Tenure, below: tuple[Layer, ...]) -> None:
        if tenure.active:
            copies = (Layer(self._holder, tenure.epoch), *below[:MAX_LAYERS])
            self._announce(Copies(tenure.task.stage, tenure.task.partition, tenure.generation, copies))
