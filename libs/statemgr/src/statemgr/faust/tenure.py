"""A worker's time with one changelog partition: its store, what is not in it yet, and what is still elsewhere.

::

    read   ─▶ changes that the store lacks ─▶ the store ─▶ (on its way) the former owner's state manager, at once
    write  ─▶ changes ─▶ acknowledged ─▶ every 50 ms one batch with the offset X that it makes complete
    revoked ─▶ frozen: what is acknowledged is written, nothing more ever is, unless the partition is kept
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from statemgr.clock import Clock
from statemgr.faust.changes import ABSENT, Absent, Changes
from statemgr.faust.decide import witness
from statemgr.faust.errors import StateUnavailableError
from statemgr.faust.images import Image, Record
from statemgr.faust.limits import FLUSH_CHANGES, HOT_KEYS, NOTED_KEYS, REBUILD_LIMIT_S, WAIT_PAUSE_S
from statemgr.layout import BIN_PREFIXES, HOT_KEY
from statemgr.migration.job import MigrationJob
from statemgr.migration.layered import LayeredStore
from statemgr.store.base import Store, StoreMeta
from statemgr.types import TaskId
from statemgr.uses import KeyUses

_PACK = msgspec.msgpack.Encoder().encode


@dataclass
class Waits:
    """How long tables have waited for state that was elsewhere, over all partitions of a worker.

    Attributes:
        count: reads that had to wait.
        total_s: for how long, together.
        longest_s: the longest one.
    """

    count: int = 0
    total_s: float = 0.0
    longest_s: float = 0.0

    def note(self, took_s: float) -> None:
        """A read has waited so long."""
        self.count += 1
        self.total_s += took_s
        self.longest_s = max(self.longest_s, took_s)


class Tenure:
    """See the module; everything happens in the event loop's thread.

    Args:
        task: the changelog partition.
        epoch: of its store on this worker's disk.
        generation: of the consumer group when the partition was taken over.
        store: its store, a layer over others while ``job`` brings what is missing.
        job: brings it; None: nothing is missing.
        image: how the changelog's records become entries of the store.
        clock: time.
        waits: where waiting is noted.
        claims: whether the store is to be a base later; with transactions an acknowledged record may still be undone.
        sleep: waits that many seconds.

    Attributes:
        active: whether events of this partition are processed here; else it is kept for later.
    """

    def __init__(
        self,
        task: TaskId,
        epoch: int,
        generation: int,
        store: Store,
        job: MigrationJob | None,
        image: Image,
        clock: Clock,
        waits: Waits,
        *,
        active: bool = True,
        claims: bool = True,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.task = task
        self.epoch = epoch
        self.generation = generation
        self.store = store
        self.job = job
        self.active = active
        self.changes = Changes()
        self._image = image
        self._clock = clock
        self._waits = waits
        self._claims = claims
        self._sleep = sleep
        self._uses = KeyUses(NOTED_KEYS)
        self._frozen = False
        self._closed = False
        meta = store.meta()
        self._offset = -1 if meta is None else meta.offset

    @property
    def offset(self) -> int | None:
        """Changelog offset up to which the store is complete; None: it is to be recovered from the beginning."""
        return self._offset if self._claims and self._offset >= 0 else None

    @property
    def complete(self) -> bool:
        """Whether all state is here."""
        return self.job is None

    def get(self, key: bytes) -> bytes | None:
        """The newest value of a key.

        Raises:
            StateUnavailableError: it can't be had.
        """
        found = self._newer(key)
        if found is not ABSENT:
            return found
        stored = self._image.store_key(key)
        self._uses.note_one(stored)
        self.require([stored])
        (value,) = self.store.get_many([stored])
        return value

    def peek(self, key: bytes) -> bytes | None:
        """The newest value that is here, without asking anybody."""
        found = self._newer(key)
        if found is not ABSENT:
            return found
        stored = self._image.store_key(key)
        local = self.store.local if isinstance(self.store, LayeredStore) else self.store
        (value,) = local.get_many([stored])
        return value

    def require(self, stored: Sequence[bytes]) -> None:
        """Have what is known of some store keys here; waits for what is elsewhere.

        Raises:
            StateUnavailableError: it can't be had.
        """
        if self.job is None or not isinstance(self.store, LayeredStore):
            return
        missing = self.store.unresolved(stored)
        if missing:
            self.job.request(missing)
            layered = self.store
            self._wait(f"the state of {len(missing)} keys", lambda: not layered.unresolved(missing), budget_s=0.0)

    def require_all(self) -> None:
        """Have all of the partition's state here.

        Raises:
            StateUnavailableError: it can't be had.
        """
        if self.job is not None:
            self.job.hurry()
            self._wait("all state", lambda: self.complete, budget_s=float("inf"))

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """All keys with their newest values; waits for all state first."""
        self.require_all()
        newest = {} if self._image.adds else dict(self.changes.newest())
        for bin_ in BIN_PREFIXES:  # no scan is open while the caller is at work: the store may be closed meanwhile
            with self.store.scan(bin_) as pairs:
                found = list(pairs)
            for stored, value in found:
                key = self._image.key_of(stored)
                if key not in newest:
                    yield key, value
        yield from ((key, value) for key, value in newest.items() if value is not None)

    def advance(self, now_s: float, budget_s: float) -> bool:
        """Take up what has come; whether all state is here since this call."""
        if self.job is None:
            return False
        self.job.poll(now_s, budget_s)
        if not self.job.complete:
            return False
        self.job.close()
        self.job = None
        if isinstance(self.store, LayeredStore):
            self.store = self.store.local
        return True

    def flush(self) -> None:
        """Write what is acknowledged to the store.

        Raises:
            StoreWriteError: the store can't be used further.
        """
        while not (self._frozen or self._closed) and (batch := self.changes.take(FLUSH_CHANGES)):
            self._write([Record(each.key, each.value, each.offset, each.timestamp_ms) for each in batch])
            self.changes.stored(batch)

    def recovered(self, records: Sequence[Record]) -> None:
        """Write what Faust has read of the changelog; it replaces what is here, and what arrives later (R10).

        Raises:
            StoreWriteError: the store can't be used further.
        """
        self._write([each for each in records if each.offset > self._offset])

    def note_hot(self) -> None:
        """Write the keys used most, for those who take the partition over."""
        if self.job is None and not self._closed:
            keys = [key for key, _ in self._uses.counts().most_common(HOT_KEYS)]
            self.store.put_raw([(HOT_KEY, _PACK(keys))])

    def freeze(self) -> None:
        """Write what is acknowledged and then nothing more: the partition may belong to another worker."""
        self.flush()
        self._frozen = True

    def thaw(self) -> None:
        """Go on: it is still ours."""
        self._frozen = False
        self.flush()

    def close(self) -> None:
        """Let go of the store; a copy for others remains."""
        if not self._closed:
            self._closed = True
            if self.job is not None:
                self.job.close()
            self.store.close()

    def _newer(self, key: bytes) -> bytes | Absent | None:
        """What the store lacks of a key; of what records add to, whoever has it in memory knows the newest state."""
        return ABSENT if self._image.adds else self.changes.get(key)

    def _write(self, records: Sequence[Record]) -> None:
        if not records:
            return
        entries = self._image.entries(records, self._known)
        last = next((each for each in reversed(records) if each.offset > self._offset), None)
        if last is None or not self._claims:
            self.store.put_raw(entries)
            return
        self.store.write(entries, self._meta(last))
        self._offset = last.offset

    def _meta(self, last: Record) -> StoreMeta:
        proof = witness(last.timestamp_ms, last.key, last.value)
        return StoreMeta(proof, last.offset, self._clock.wall_ms(), self.epoch, None)

    def _known(self, stored: Sequence[bytes]) -> list[bytes | None]:
        """Values of store keys as the store is to have them, for images that add to what is there."""
        self.require(stored)
        return self.store.get_many(stored)

    def _wait(self, what: str, done: Callable[[], bool], budget_s: float) -> None:
        began_s = self._clock.monotonic_s()
        try:
            while True:
                now_s = self._clock.monotonic_s()
                job = self.job
                self.advance(now_s, budget_s)
                if done():
                    return
                self._check(job, what, now_s - began_s)
                self._sleep(WAIT_PAUSE_S)
        finally:
            self._waits.note(self._clock.monotonic_s() - began_s)

    def _check(self, job: MigrationJob | None, what: str, waited_s: float) -> None:
        if job is not None and job.superseded:
            raise StateUnavailableError(
                f"{self.task} belongs to another worker by now: a later generation of the group than "
                f"{self.generation} has given it away"
            )
        if waited_s >= REBUILD_LIMIT_S:
            raise StateUnavailableError(
                f"{what} of {self.task} could not be had within {REBUILD_LIMIT_S:g} s: neither from a former owner's "
                f"state manager nor from the changelog; {job.stalled if job is not None else ''}"
            )


def unanswered(tenures: Sequence[Tenure]) -> int:
    """Changes that the changelog has not acknowledged yet."""
    return sum(each.changes.unanswered for each in tenures)
