"""When arriving tasks are opened: never before an older store of the task is closed, and restores together.

::

    stateless stage, replay, restart, no layer     from the changelog, several tasks by one restore
    the log names the cut, its store is the layer  at the cut: nothing is asked or read first
    else                                           by whichever base the facts allow
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from statemgr.control.records import FROM_CHANGELOG, Assigned, Layer, Released
from statemgr.errors import HolderUnavailableError
from statemgr.migration.opening import NoAnswer
from statemgr.migration.ports import Description, Pending, Spawn
from statemgr.store import StoreBackend
from statemgr.types import TaskId
from towpath.query.plan import StagePlan
from towpath.stage.background import After
from towpath.stage.opening import Opening
from towpath.stage.ownership import Topics
from towpath.stage.tasks import OwnedTask

log = structlog.get_logger()


def known_cut(assigned: Assigned, released: Released | None) -> Released | None:
    """The release that says all there is to know of the only layer; None where its holder must be asked.

    It is the release of the owner just before, which ran, named its cut, and has the one store that there is.
    """
    if released is None or not released.started or released.progress is None:
        return None
    if released.epoch != assigned.epoch - 1 or [layer.epoch for layer in assigned.layers] != [released.epoch]:
        return None
    return released


@dataclass
class _Slot:
    """A task of a restore that several tasks share; the restore starts at the end of the turn."""

    partition: int
    epoch: int
    restore: Pending[list[OwnedTask]] | None = None

    def done(self) -> bool:
        return self.restore is not None and self.restore.done()

    def result(self) -> OwnedTask:
        if self.restore is None:
            raise HolderUnavailableError(f"the restore of partition {self.partition} has not begun")
        return next(task for task in self.restore.result() if task.id.partition == self.partition)


class Opener:
    """Opens stores for one replica.

    Args:
        plan: the stage.
        backend: the replica's stores.
        opening: opens one task.
        spawn: runs what takes long.
    """

    def __init__(self, plan: StagePlan, backend: StoreBackend, opening: Opening, spawn: Spawn) -> None:
        self._plan = plan
        self._backend = backend
        self._opening = opening
        self._spawn = spawn
        self._slots: list[_Slot] = []
        self._delayed: list[_Delayed] = []
        self._closing: dict[TaskId, list[Pending[None]]] = {}

    @property
    def stage(self) -> str:
        """The stage's name."""
        return self._plan.name

    def begin(self, topics: Topics) -> None:
        """Start anew after a fence."""
        self._opening.topics = topics

    def turn(self) -> None:
        """Start what was asked for, as far as older stores are closed."""
        self._closing = {task: left for task, all_ in self._closing.items() if (left := _unfinished(task, all_))}
        for delayed in [each for each in self._delayed if each.task not in self._closing]:
            self._delayed.remove(delayed)
            delayed.opening = self._spawn(delayed.begin)
        slots = [slot for slot in self._slots if TaskId(self.stage, slot.partition) not in self._closing]
        if slots:
            epochs = {slot.partition: slot.epoch for slot in slots}
            restore = self._spawn(lambda: self._opening.restore(epochs))
            for slot in slots:
                slot.restore = restore
                self._slots.remove(slot)

    def needs_no_description(self, assigned: Assigned, released: Released | None) -> bool:
        """Whether the log alone says how to open the task."""
        return self._from_changelog(assigned) or self._cut(assigned, released) is not None

    def open(
        self, assigned: Assigned, released: Released | None, said: Mapping[Layer, Description | NoAnswer]
    ) -> Pending[OwnedTask]:
        """Begin to make a task ready.

        Args:
            assigned: the assignment; every earlier owner has ended.
            released: the newest release of the task.
            said: what the holders of the layers said.
        """
        if self._from_changelog(assigned):
            slot = _Slot(assigned.partition, assigned.epoch)
            self._slots.append(slot)
            return slot
        cut = self._cut(assigned, released)
        if cut is not None:
            delayed = _Delayed(assigned.task, lambda: self._opening.at_cut(assigned, cut))
        else:
            delayed = _Delayed(assigned.task, lambda: self._opening.open(assigned, released, said))
        self._delayed.append(delayed)
        return delayed

    def read(self, task: TaskId, epoch: int) -> dict[str, Any]:
        """How far the changelog has been read for a task that is being opened; empty: it is not being read."""
        return self._opening.read(task, epoch)

    def hold(self, task: TaskId, freed: Pending[None]) -> None:
        """Open nothing of a task before its store is free."""
        self._closing.setdefault(task, []).append(freed)

    def put_away(self, task: OwnedTask) -> None:
        """Close the store of a task that was released: flushing it may take a while."""
        if task.migration is not None:
            task.migration.close()
        if task.state is not None:
            self.hold(task.id, self._spawn(task.state.close))

    def abandon(self, assigned: Assigned, opening: Pending[OwnedTask] | None, task: OwnedTask | None) -> None:
        """Close what was opened, or prepared, for a task that will not run here."""
        if task is not None:
            self.put_away(task)
        elif opening is not None and opening not in (*self._slots, *self._delayed):
            self.hold(assigned.task, After([opening], self._spawn, lambda: _close(opening)))
        else:
            self._forget(assigned, opening)

    def _forget(self, assigned: Assigned, opening: Pending[OwnedTask] | None) -> None:
        """What has not begun never will; a store may have been prepared for it."""
        self._slots = [slot for slot in self._slots if slot is not opening]
        self._delayed = [delayed for delayed in self._delayed if delayed is not opening]
        self.hold(assigned.task, self._spawn(lambda: self._opening.forget(assigned.task, assigned.epoch)))

    def drop(self) -> None:
        """Wait for nothing any more; what runs in the background closes its stores when it ends."""
        self._slots = []
        self._delayed = []

    def _from_changelog(self, assigned: Assigned) -> bool:
        return not self._plan.stateful or assigned.manner.strategy in FROM_CHANGELOG or not assigned.layers

    def _cut(self, assigned: Assigned, released: Released | None) -> Released | None:
        """The release that says all there is to know; None where holders or own stores must be looked at.

        A store of an older epoch is no hindrance: what is taken from the last owner needs no tail to be read.
        """
        task, epoch = assigned.task, assigned.epoch
        if epoch in self._backend.existing(task) and not self._opening.is_prepared(task, epoch):
            return None
        return known_cut(assigned, released)


@dataclass
class _Delayed:
    """An opening that waits until an older store of its task is closed."""

    task: TaskId
    begin: Callable[[], OwnedTask]
    opening: Pending[OwnedTask] | None = None

    def done(self) -> bool:
        return self.opening is not None and self.opening.done()

    def result(self) -> OwnedTask:
        if self.opening is None:
            raise HolderUnavailableError(f"the opening of {self.task} has not begun")
        return self.opening.result()


def _close(opening: Pending[OwnedTask]) -> None:
    """Close the store of a task that nobody wants any more."""
    state = opening.result().state
    if state is not None:
        state.close()


def _unfinished(task: TaskId, pending: list[Pending[None]]) -> list[Pending[None]]:
    """Those that still run; of those that have failed it is said why, and nothing waits for them any more."""
    left = []
    for each in pending:
        if not each.done():
            left.append(each)
            continue
        try:
            each.result()
        except Exception as error:  # noqa: BLE001 - a store that stays open is named by whoever opens it next
            cause = f"{type(error).__name__}: {error}"
            log.warning("work on a store beside the loop has failed", task=str(task), cause=cause)
    return left
