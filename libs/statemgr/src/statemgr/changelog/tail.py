"""One task's way from its base to the end of its changelog partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from zlib import crc32

from statemgr.changelog.model import RestoredTask, Source
from statemgr.errors import CodecError
from statemgr.kafka.ports import Message
from statemgr.layout import BIN_PREFIXES, PROGRESS_KEY, store_key
from statemgr.progress import Progress, decode_progress
from statemgr.store.base import EMPTY_OFFSET, UNFINISHED_KEY, Store, StoreMeta
from statemgr.types import TaskId, TopicPartition

_SHORTEST_KEY = len(PROGRESS_KEY)
_STORED_PROGRESS = store_key(PROGRESS_KEY)


class Tail:
    """Applies changelog records in order, unconditionally (R10), in write batches that carry their own offset.

    A crash between two batches leaves a store that is complete up to the last one, and so a base. It is as old as the
    base that it began with: only at the end all deletes are known to have been seen (R12). Nobody is to read from it
    until the last batch: of a compacted log only the whole gives the state, so all batches but that one leave a mark.

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

    def begin(
        self, store: Store, came_from: Source, start: int, end: int, base: StoreMeta | None, *, filling: bool = False
    ) -> None:
        """Apply offsets ``start`` … ``end`` − 1 to ``store``, which is complete up to ``start`` − 1.

        Args:
            store: what to write to.
            came_from: what the state is made of.
            start: first offset to apply.
            end: offset after the last one.
            base: meta of what is in the store; None if it is empty.
            filling: whether ``store`` was opened for filling.
        """
        self.store = store
        self.filling = filling
        self.came_from = came_from
        self.next = start
        self.end = end
        self._last = start - 1
        self.progress = base.progress if base is not None else None
        self._as_of_ms = base.committed_at_ms if base is not None else self._wall_ms()
        self._chunk = {}
        self._waiting_bytes = 0

    @property
    def remaining(self) -> int:
        """Offsets ahead, markers included."""
        return max(0, self.end - self.next)

    def add(self, messages: Sequence[Message]) -> None:
        """Take the partition's next records; those outside of what is still to be read are ignored.

        They are taken as columns, because a restore's rate is that of this loop: with a call for each record it was
        two thirds of the time.

        Args:
            messages: at least one, in the order of their offsets.

        Raises:
            CodecError: a record is none that a changelog can hold.
            StoreWriteError: the store can't be written.
        """
        if messages[0].offset() < self.next or messages[-1].offset() >= self.end:
            messages = [message for message in messages if self.next <= message.offset() < self.end]
            if not messages:
                return
        maybe_keys = [message.key() for message in messages]
        keys = [key for key in maybe_keys if key is not None and len(key) >= _SHORTEST_KEY]
        if len(keys) < len(maybe_keys):
            raise self._no_key(messages)
        values = [message.value() for message in messages]
        chunk = self._chunk
        chunk.update(zip([BIN_PREFIXES[crc32(key) & 0xFF] + key for key in keys], values, strict=True))
        size = sum(map(len, keys)) + sum(map(len, filter(None, values)))
        last = self._last = messages[-1].offset()
        self.next = last + 1
        self.records += len(keys)
        self.bytes += size
        self._waiting_bytes += size
        if _STORED_PROGRESS in chunk:
            self.progress = self._decode(last, chunk.pop(_STORED_PROGRESS))
        if self._waiting_bytes >= self._chunk_bytes:
            chunk[UNFINISHED_KEY] = b""
            self._flush(last, self._as_of_ms)

    def pass_markers(self, position: int | None) -> bool:
        """Follow the reader's position past offsets that carry no record; whether it moved."""
        if position is None or position <= self.next:
            return False
        self.next = min(position, self.end)
        return True

    def finish(self, *, in_use: bool = False) -> None:
        """Write what waits, with the last record's offset as the one that the store is complete up to.

        Not the end's: what lies between is markers and aborted records, which a broker may lose with a tail that it had
        not written yet. Their offsets then go to other records, which the store would claim to hold.

        ``in_use``: the task's owner writes on. What a key was at the end may be compacted away by then, and what it was
        before still be there, so that only a later tail, which has what it is now, makes the store whole.
        """
        self._chunk[UNFINISHED_KEY] = b"" if in_use else None
        self._flush(max(self._last, EMPTY_OFFSET), self._wall_ms())

    def restored(self) -> RestoredTask:
        """What came of it, with the store as it is now."""
        return RestoredTask(
            self.task, self.epoch, self.store, self.progress, self.came_from, self.records, self.restarts
        )

    def _flush(self, offset: int, as_of_ms: int) -> None:
        meta = StoreMeta(self._topic_id, offset, as_of_ms, self.epoch, self.progress)
        self.store.write(self._chunk.items(), meta)
        self._chunk = {}
        self._waiting_bytes = 0

    def _decode(self, offset: int, value: bytes | None) -> Progress:
        at = f"the last progress record of {self.partition} up to offset {offset}"
        if value is None:
            raise CodecError(f"{at} is a delete, which nothing of this library writes")
        try:
            return decode_progress(value)
        except CodecError as error:
            raise CodecError(f"{at}: {error}") from error

    def _no_key(self, messages: Sequence[Message]) -> CodecError:
        wrong = next(each for each in messages if each.key() is None or len(each.key() or b"") < _SHORTEST_KEY)
        return CodecError(
            f"changelog record {self.partition} offset {wrong.offset()} has key {wrong.key()!r}; a changelog key "
            "begins with a 2-byte table id"
        )
