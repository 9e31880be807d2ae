"""One task's way from its base to the end of its changelog partition."""

from __future__ import annotations

from collections.abc import Callable

from statemgr.changelog.model import RestoredTask, Source
from statemgr.errors import CodecError
from statemgr.layout import PROGRESS_KEY, store_key
from statemgr.progress import Progress, decode_progress
from statemgr.store.base import EMPTY_OFFSET, Store, StoreMeta
from statemgr.types import TaskId, TopicPartition

_SHORTEST_KEY = len(PROGRESS_KEY)


class Tail:
    """Applies changelog records in order, unconditionally (R10), in write batches that carry their own offset.

    A crash between two batches leaves a store that is complete up to the last one, and so a base. It is as old as the
    base that it began with: only at the end all deletes are known to have been seen (R12).

    Args:
        source: the task's changelog partition.
        topic_id: id of the changelog topic.
        chunk_bytes: size of a write batch in bytes of keys and values.
        wall_ms: wall clock.
    """

    def __init__(
        self,
        task: TaskId,
        epoch: int,
        source: TopicPartition,
        topic_id: str,
        chunk_bytes: int,
        wall_ms: Callable[[], int],
    ) -> None:
        self.task = task
        self.epoch = epoch
        self.partition = source
        self._topic_id = topic_id
        self._chunk_bytes = chunk_bytes
        self._wall_ms = wall_ms
        self._chunk: dict[bytes, bytes | None] = {}
        self._waiting_bytes = 0
        self.records = 0
        self.bytes = 0
        self.restarts = 0

    def begin(self, store: Store, came_from: Source, start: int, end: int, base: StoreMeta | None) -> None:
        """Apply offsets ``start`` … ``end`` − 1 to ``store``, which is complete up to ``start`` − 1.

        Args:
            store: what to write to.
            came_from: what the state is made of.
            start: first offset to apply.
            end: offset after the last one.
            base: meta of what is in the store; None if it is empty.
        """
        self.store = store
        self.came_from = came_from
        self.next = start
        self.end = end
        self.progress = base.progress if base is not None else None
        self._as_of_ms = base.committed_at_ms if base is not None else self._wall_ms()
        self._chunk = {}
        self._waiting_bytes = 0

    @property
    def remaining(self) -> int:
        """Offsets ahead, markers included."""
        return max(0, self.end - self.next)

    def add(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Take the next record; one outside of what is still to be read is ignored.

        Raises:
            CodecError: the record is none that a changelog can hold.
            StoreWriteError: the store can't be written.
        """
        if not self.next <= offset < self.end:
            return
        if key is None or len(key) < _SHORTEST_KEY:
            raise CodecError(f"{self._at(offset)} has key {key!r}; a changelog key begins with a 2-byte table id")
        self.next = offset + 1
        size = len(key) + (len(value) if value is not None else 0)
        self.records += 1
        self.bytes += size
        if key == PROGRESS_KEY:
            self.progress = self._decode(offset, value)
            return
        self._chunk[store_key(key)] = value
        self._waiting_bytes += size
        if self._waiting_bytes >= self._chunk_bytes:
            self._flush(offset, self._as_of_ms)

    def pass_markers(self, position: int | None) -> bool:
        """Follow the reader's position past offsets that carry no record; whether it moved."""
        if position is None or position <= self.next:
            return False
        self.next = min(position, self.end)
        return True

    def finish(self) -> RestoredTask:
        """Write what waits, with the end as the offset that the store is complete up to."""
        self._flush(max(self.end - 1, EMPTY_OFFSET), self._wall_ms())
        return RestoredTask(
            self.task, self.epoch, self.store, self.progress, self.came_from, self.records, self.restarts
        )

    def _flush(self, offset: int, as_of_ms: int) -> None:
        meta = StoreMeta(self._topic_id, offset, as_of_ms, self.epoch, self.progress)
        self.store.write(self._chunk.items(), meta)
        self._chunk = {}
        self._waiting_bytes = 0

    def _decode(self, offset: int, value: bytes | None) -> Progress:
        if value is None:
            raise CodecError(f"{self._at(offset)} deletes the progress record, which nothing of this library does")
        try:
            return decode_progress(value)
        except CodecError as error:
            raise CodecError(f"{self._at(offset)}: {error}") from error

    def _at(self, offset: int) -> str:
        return f"changelog record {self.partition} offset {offset}"
