"""Copies of a task's state, made while its owner works on (precopy, standby)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import msgspec

from statemgr.clock import Clock
from statemgr.control.records import Layer, Manner
from statemgr.errors import NoSuchCopyError, StateError
from statemgr.migration.job import MigrationJob
from statemgr.migration.layered import LayeredStore, begin
from statemgr.migration.ports import Address, Description, Pending, Spawn, StateClient
from statemgr.migration.sources import UsableLayer
from statemgr.store.base import Store, StoreBackend
from statemgr.types import TaskId
from towpath.coordinator.messages import Prepare
from towpath.stage.background import After

ASK_TIMEOUT_S = 2.0
"""What the owner's copy is at; its state manager may have to open a secondary first."""

MOST_LAYERS = 3
"""Copies that a task may depend on (R7)."""


class MakeJob(Protocol):
    """Makes the job that fills a copy."""

    def __call__(
        self, task: TaskId, epoch: int, manner: Manner, layered: LayeredStore, usable: list[UsableLayer]
    ) -> MigrationJob:
        """See the class."""
        ...


class Copy:
    """One copy: asked, opened, filled, kept.

    Args:
        task: whose state.
        hint: under which epoch, from which layers.
        makers: what it is made with.
    """

    def __init__(self, task: TaskId, hint: Prepare, makers: CopyMaker) -> None:
        self._task = task
        self._hint = hint
        self._makers = makers
        self._top: Layer = hint.layers[0]
        self._described: Pending[Description] | None = makers.client.describe(
            Address(task, self._top, hint.epoch), -1, ASK_TIMEOUT_S
        )
        self._opening: Pending[LayeredStore] | None = None
        self._sources: list[UsableLayer] = []
        self._store: LayeredStore | None = None
        self._job: MigrationJob | None = None
        self._topping: Pending[None] | None = None
        self._begun_s = makers.clock.monotonic_s()

    @property
    def complete(self) -> bool:
        """Whether it is a base: all of the state up to some X."""
        return self._job is not None and self._job.complete

    def advance(self, now_s: float, budget_s: float) -> None:
        """Go on with whatever is next; does not wait.

        Raises:
            HolderUnavailableError, StaleRequestError, NoSuchCopyError: there is nothing to copy from.
            StoreWriteError, CorruptStoreError: there is nothing to copy to.
        """
        if self._described is not None and self._described.done():
            self._open(self._described.result())
            self._described = None
        if self._opening is not None and self._opening.done():
            self._store = self._opening.result()
            self._opening = None
            self._job = self._makers.make_job(
                self._task, self._hint.epoch, self._hint.manner, self._store, self._sources
            )
        if self._job is not None and not self._job.complete:
            self._job.poll(now_s, budget_s)

    def report(self, now_s: float) -> dict[str, Any]:
        """How far it has come, in the words of :mod:`towpath.coordinator.progress`, and since when it is made."""
        elapsed_s = now_s - self._begun_s
        if self._job is None:
            phase = "asking its owner" if self._described is not None else "opening a store"
            return {"phase": phase, "elapsed_s": elapsed_s}
        read = self._makers.read(self._task, self._hint.epoch)
        return {**read, **msgspec.to_builtins(self._job.progress()), "elapsed_s": elapsed_s}

    def top_up(self) -> bool:
        """Begin to apply what the owner has written since; false while that is under way."""
        if self._topping is not None and not self._topping.done():
            return False
        if self._topping is not None:
            self._topping.result()
        store, self._store = self._store, None
        self._topping = self._makers.spawn(lambda: self._makers.top_up(self._task, self._hint.epoch, store))
        return True

    def close(self, *, keep: bool) -> Pending[None]:
        """Let go of the store; gives when it is closed, and deleted unless it is to be kept."""
        if self._job is not None:
            self._job.close()
        opening, store = self._opening, self._store
        before = [pending for pending in (opening, self._topping) if pending is not None]
        return After(before, self._makers.spawn, lambda: self._put_away(opening, store, keep=keep))

    def _open(self, described: Description) -> None:
        meta = described.meta
        if meta is None:
            raise NoSuchCopyError(f"the owner of {self._task} has committed nothing yet")
        layers = (self._top, *described.layers)[:MOST_LAYERS]
        self._sources = [UsableLayer(layer) for layer in layers]
        self._sources[0] = UsableLayer(self._top, meta.offset, described.complete)
        self._sources[1:2] = [UsableLayer(layer, least=described.beneath) for layer in layers[1:2]]
        own = msgspec.structs.replace(meta, epoch=self._hint.epoch)
        backend, task, epoch = self._makers.backend, self._task, self._hint.epoch

        def work() -> LayeredStore:
            backend.destroy(task, epoch)
            return begin(backend.open(task, epoch), layers, own, in_use=True)

        self._opening = self._makers.spawn(work)

    def _put_away(self, opening: Pending[LayeredStore] | None, store: Store | None, *, keep: bool) -> None:
        try:
            if opening is not None:
                with suppress(StateError):  # one that could not be begun is closed
                    opening.result().close()
            if store is not None:
                store.close()
        finally:
            if not keep:
                self._makers.backend.destroy(self._task, self._hint.epoch)


class CopyMaker:
    """Makes copies for one replica.

    Args:
        client: asks state managers.
        backend: the replica's stores.
        clock: time.
        spawn: runs what takes long.
        make_job: makes the job that fills a copy.
        top_up: closes the store, if it is given, applies the changelog's tail to it, and closes it again.
        read: how far the changelog has been read for a copy; empty: it is not being read.
    """

    def __init__(
        self,
        client: StateClient,
        backend: StoreBackend,
        clock: Clock,
        spawn: Spawn,
        make_job: MakeJob,
        top_up: Callable[[TaskId, int, Store | None], None],
        read: Callable[[TaskId, int], dict[str, Any]],
    ) -> None:
        self.client = client
        self.backend = backend
        self.clock = clock
        self.spawn = spawn
        self.make_job = make_job
        self.top_up = top_up
        self.read = read

    def begin(self, task: TaskId, hint: Prepare) -> Copy:
        """Begin to copy a task's state."""
        return Copy(task, hint, self)
