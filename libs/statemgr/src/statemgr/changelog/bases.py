"""The stores that a restore begins with: finds a base, and carries out the decision about it."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from statemgr.changelog.model import Source
from statemgr.decisions import Fresh, RestoreFully, UseBase
from statemgr.errors import CorruptStoreError, StoreLockedError
from statemgr.migration.layered import record_of
from statemgr.store.base import Store, StoreBackend, StoreMeta
from statemgr.types import TaskId

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Base:
    """A store that is there and can be read."""

    epoch: int
    store: Store
    meta: StoreMeta | None


def open_newest(backend: StoreBackend, task: TaskId, epoch: int) -> Base | None:
    """The task's newest store that is complete and not of a later epoch; None if there is none.

    A store whose migration is not complete is no base: part of its state is at former owners. One that can't be read
    is deleted, with a warning that names it, and nothing older is used: the changelog rebuilds it.

    Raises:
        StoreLockedError: another process has it open.
        IncompatibleStoreError: it was written with other options.
    """
    for known in reversed([known for known in backend.existing(task) if known <= epoch]):
        try:
            base = _read(backend, task, known)
        except CorruptStoreError as error:
            log.warning(
                "store of %s is damaged, deleting it for a full restore: %s: %s",
                task,
                backend.describe(task, known),
                error,
                extra=_about(task, known),
            )
            backend.destroy(task, known)
            return None
        if base is not None:
            return base
    return None


def _read(backend: StoreBackend, task: TaskId, epoch: int) -> Base | None:
    """The store with its meta record; None, and closed, if it is incomplete."""
    store = backend.open(task, epoch)
    try:
        base = Base(epoch, store, store.meta())
        complete = record_of(store) is None
    except BaseException:
        store.close()
        raise
    if complete:
        return base
    log.warning("%s@%s has only part of its state, so it is no base by itself", task, epoch, extra=_about(task, epoch))
    store.close()
    return None


def carry_out(
    decision: UseBase | RestoreFully | Fresh,
    backend: StoreBackend,
    task: TaskId,
    epoch: int,
    base: Base | None,
    *,
    filling: bool,
) -> tuple[Store, Source]:
    """Turn the base, which is closed or used up, into the open store of ``epoch`` that the changelog goes into.

    A base of a former epoch is forked, so that no directory is ever used by two epochs (R8); the former one stays
    until the restore is complete.

    Args:
        decision: what to make of the base.
        backend: where the stores are.
        task: whose.
        epoch: the owner's epoch.
        base: the newest complete store; None if there is none.
        filling: whether there is much to write.
    """
    if isinstance(decision, UseBase) and base is not None:
        if base.epoch == epoch and not filling:
            return base.store, Source.TAIL
        base.store.close()
        if base.epoch != epoch:
            backend.fork(task, base.epoch, epoch)
        return backend.open(task, epoch, filling=filling), Source.TAIL
    if base is not None:
        base.store.close()
    backend.destroy(task, epoch)
    came_from = Source.FRESH if isinstance(decision, Fresh) else Source.FULL
    return backend.open(task, epoch, filling=filling), came_from


def start_over(backend: StoreBackend, task: TaskId, epoch: int, store: Store, *, filling: bool) -> Store:
    """Replace a store by an empty one of the same epoch; ``filling``: there is much to write."""
    store.close()
    backend.destroy(task, epoch)
    return backend.open(task, epoch, filling=filling)


def drop_superseded(backend: StoreBackend, task: TaskId, epoch: int) -> None:
    """Delete the stores of former epochs, now that the one of ``epoch`` is complete.

    One that another process still has open is left for the next time.
    """
    for former in backend.existing(task):
        if former < epoch:
            try:
                backend.destroy(task, former)
            except StoreLockedError as error:
                log.warning(
                    "superseded store of %s@%s stays for now: %s", task, former, error, extra=_about(task, former)
                )


def _about(task: TaskId, epoch: int) -> dict[str, object]:
    """Fields of a log line."""
    return {"task": str(task), "epoch": epoch}
