"""Tasks that will probably come to this replica: what can be done before the assignment is.

::

    hint ──▶ warming: a store is opened, the holder opens its secondary, connections are made ──▶ ready
         └─▶ copying (precopy, standby): all of the owner's state, while it works on ──▶ ready ──▶ standby: topped up
    no hint any more, and no assignment ──▶ forgotten, the copy deleted

A copy is an ordinary store of the coming epoch, complete up to some X; the assignment makes it the base. Until then it
decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from statemgr.clock import Clock
from statemgr.control.records import COPIES_FIRST, Strategy
from statemgr.errors import StateError
from statemgr.migration.ports import Address, Description, Pending, Spawn, StateClient
from statemgr.types import TaskId
from towpath.coordinator.messages import Prepare, TaskReport
from towpath.stage.copying import Copy, CopyMaker
from towpath.stage.hand_over import HandOvers
from towpath.stage.opening import Opening

log = structlog.get_logger()

WARM_TIMEOUT_S = 1.0
"""Opening a secondary takes 0.25 s on a busy machine; the move comes anyway, only less smoothly."""

FORGET_S = 30.0
"""A hint comes with every heartbeat; after so long without one the coordinator has changed its mind, or is away."""

TOP_UP_S = 1.0
"""How far behind its owner a standby copy may fall before it is topped up."""

LAYERED = frozenset({Strategy.BLOCK, Strategy.LAZY, Strategy.HYBRID})
"""Strategies that begin with an empty store over the former owner's."""


@dataclass
class _Preparation:
    hint: Prepare
    hinted_s: float
    warming: list[Pending[Description]] = field(default_factory=list)
    store: Pending[None] | None = None
    copy: Copy | None = None
    topped_s: float = float("-inf")
    failed_s: float | None = None
    noted: bool = False
    counted: bool = False
    begun_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.begun_s = self.hinted_s

    def trace(self, hint: Prepare, now_s: float) -> None:
        """A standby copy is there before the move that it is for: it is part of that one's trace from now on."""
        if hint.trace != self.hint.trace:
            self.hint = self.hint.model_copy(update={"trace": hint.trace})
            self.noted, self.begun_s = False, now_s

    def is_due(self, now_s: float) -> bool:
        """Whether a standby copy that could not be made, perhaps because its owner had written nothing, is tried again.

        A move by precopy goes without instead.
        """
        waits = self.failed_s is not None and now_s - self.failed_s >= TOP_UP_S
        return waits and self.hint.manner.strategy is Strategy.STANDBY

    @property
    def ready(self) -> bool:
        if self.copy is not None:
            return self.copy.complete
        return (self.store is None or self.store.done()) and all(pending.done() for pending in self.warming)


class Preparations:
    """All preparations of one replica.

    Args:
        stage: its stage.
        opening: opens stores.
        client: asks state managers.
        copies: makes copies of stores.
        spawn: runs what takes long.
        hold: lets nothing of a task be opened before what was prepared for it is closed.
        clock: time.
        hand_overs: looks at what is prepared.
    """

    def __init__(
        self,
        stage: str,
        opening: Opening,
        client: StateClient,
        copies: CopyMaker,
        spawn: Spawn,
        hold: Callable[[TaskId, Pending[None]], None],
        clock: Clock,
        hand_overs: HandOvers,
    ) -> None:
        self._hand_overs = hand_overs
        self._stage = stage
        self._opening = opening
        self._spawn = spawn
        self._hold = hold
        self._client = client
        self._copies = copies
        self._clock = clock
        self._prepared: dict[TaskId, _Preparation] = {}

    def heed(self, hints: Sequence[Prepare]) -> None:
        """Begin what is new, and go on with what is hinted at again."""
        now_s = self._clock.monotonic_s()
        for hint in hints:
            task = TaskId(self._stage, hint.partition)
            known = self._prepared.get(task)
            if known is not None and known.hint.epoch == hint.epoch and not known.is_due(now_s):
                known.hinted_s = now_s
                known.trace(hint, now_s)
                continue
            if known is not None:
                self._forget(task)
            self._prepared[task] = self._begin(task, hint, now_s)

    def turn(self, budget_s: float) -> None:
        """Go on with copies, and forget what nobody hints at any more."""
        now_s = self._clock.monotonic_s()
        for task, prepared in list(self._prepared.items()):
            if now_s - prepared.hinted_s >= FORGET_S:
                self._forget(task)
            else:
                self._advance(task, prepared, now_s, budget_s)
                self._note_if_ready(task, prepared, now_s)

    def ready(self) -> list[tuple[TaskId, int]]:
        """Tasks for which nothing more can be done before the assignment, with their epochs."""
        return [(task, prepared.hint.epoch) for task, prepared in self._prepared.items() if prepared.ready]

    def reports(self) -> list[TaskReport]:
        """What the coordinator is told of copies that are being made."""
        return [
            TaskReport(partition=task.partition, epoch=hint.epoch, state="copying", complete=False, migration=progress)
            for task, hint, progress in self.copied()
        ]

    def copied(self) -> Iterator[tuple[TaskId, Prepare, dict[str, Any]]]:
        """Copies that are being made, by what hint, and what they tell of themselves."""
        now_s = self._clock.monotonic_s()
        for task, each in self._prepared.items():
            if each.copy is not None and not each.copy.complete:
                yield task, each.hint, each.copy.report(now_s)

    @property
    def copying(self) -> bool:
        """Whether a copy is being made: it goes on with every turn of the loop, so turns should not be far apart."""
        return any(each.copy is not None and not each.copy.complete for each in self._prepared.values())

    def has_copy(self, task: TaskId, epoch: int) -> bool:
        """Whether a whole copy is here for a task's coming epoch: nobody has to be asked for anything then."""
        prepared = self._prepared.get(task)
        return prepared is not None and prepared.hint.epoch == epoch and prepared.copy is not None and prepared.ready

    def take(self, task: TaskId, epoch: int) -> Pending[None] | None:
        """The assignment has come: its store is free to be opened once what this gives is done.

        A preparation for another epoch is forgotten.
        """
        prepared = self._prepared.pop(task, None)
        if prepared is None:
            return None
        if prepared.copy is not None:
            return prepared.copy.close(keep=prepared.hint.epoch == epoch)
        if prepared.hint.epoch == epoch:
            return prepared.store
        return self._spawn(lambda: self._opening.forget(task, prepared.hint.epoch))

    def drop(self) -> None:
        """Forget all, and delete what was prepared."""
        for task in list(self._prepared):
            self._forget(task)

    def _begin(self, task: TaskId, hint: Prepare, now_s: float) -> _Preparation:
        log.info("preparing", task=str(task), epoch=hint.epoch, strategy=str(hint.manner.strategy))
        prepared = _Preparation(hint, now_s)
        if hint.layers and hint.manner.strategy in COPIES_FIRST:
            prepared.copy = self._copies.begin(task, hint)
        else:
            if hint.layers and hint.manner.strategy in LAYERED:
                prepared.store = self._spawn(self._opening.prepare(task, hint.epoch))
            prepared.warming = [
                self._client.describe(Address(task, layer, hint.epoch), -1, WARM_TIMEOUT_S) for layer in hint.layers
            ]
        return prepared

    def _advance(self, task: TaskId, prepared: _Preparation, now_s: float, budget_s: float) -> None:
        copy = prepared.copy
        if copy is None:
            return
        try:
            copy.advance(now_s, budget_s)
            due = copy.complete and now_s - prepared.topped_s >= TOP_UP_S
            if due and prepared.hint.manner.strategy is Strategy.STANDBY and copy.top_up():
                prepared.topped_s = now_s
        except StateError as error:
            log.warning("a copy could not be made, the move goes without", task=str(task), cause=str(error))
            self._hold(task, copy.close(keep=False))
            prepared.copy, prepared.failed_s = None, now_s

    def _note_if_ready(self, task: TaskId, prepared: _Preparation, now_s: float) -> None:
        if prepared.ready and not prepared.noted:
            new = prepared.copy if not prepared.counted else None
            copied = new.report(now_s) if new is not None else {}
            prepared.noted = prepared.counted = True
            self._hand_overs.prepared(task, prepared.hint, prepared.begun_s, copied)

    def _forget(self, task: TaskId) -> None:
        prepared = self._prepared.pop(task)
        if prepared.copy is not None:
            self._hold(task, prepared.copy.close(keep=False))
        elif prepared.store is not None:
            self._hold(task, self._spawn(lambda: self._opening.forget(task, prepared.hint.epoch)))
