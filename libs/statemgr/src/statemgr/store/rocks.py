"""One task's store in RocksDB.

rocksdict is used in raw mode (bytes in, bytes out). A live iterator keeps the database and its lock alive beyond
``close()``, and rocksdict's own ``items()`` ends silently at a damaged block; scans therefore are counted, use the
plain iterator, and ask for its status at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import cast

from rocksdict import Checkpoint, Rdict, RdictIter, WriteBatch

from statemgr.errors import CodecError, IncompatibleStoreError, StateError
from statemgr.store.base import (
    META_FORMAT,
    META_KEY,
    OWN_KEY_BYTES,
    Entry,
    StoreMeta,
    StoreSize,
    decode_meta,
    encode_meta,
)
from statemgr.store.rocks_errors import is_full, read_error, write_error
from statemgr.store.scans import Pairs, Scan, ScanGuard
from statemgr.types import TaskId

FLUSH_POLL_S = 0.001
"""Between two looks at a flush; a memtable takes about 50 ms."""

_SIZES = ("rocksdb.estimate-live-data-size", "rocksdb.cur-size-all-mem-tables", "rocksdb.estimate-num-keys")

FLUSH_TIMEOUT_S = 60.0
"""How long a flush is looked after before it is waited for in the one call that also tells its error."""


class RocksStore:
    """A store whose bytes are in a RocksDB directory; made by :class:`statemgr.store.RocksBackend`."""

    def __init__(
        self,
        task: TaskId,
        epoch: int,
        directory: Path,
        database: Rdict,
        memory_full: Callable[[], bool],
        on_close: Callable[[], None],
    ) -> None:
        self.task = task
        self.epoch = epoch
        self.directory = directory
        self._database = database
        self._memory_full = memory_full
        self._on_close = on_close
        self._guard = ScanGuard(f"{task}@{epoch} at {directory}")
        self._write_failed = False

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See :meth:`statemgr.store.base.Store.get_many`."""
        self._guard.check_open()
        if not keys:
            return []
        try:
            values = cast("list[bytes | None]", self._database.get(list(keys)))
        except Exception as error:
            raise read_error(error, self.task, self.epoch, str(self.directory)) from error
        return values

    def write(self, entries: Iterable[Entry], meta: StoreMeta) -> None:
        """See :meth:`statemgr.store.base.Store.write`."""
        self.put_raw(chain(entries, ((META_KEY, encode_meta(meta)),)))

    def put_raw(self, entries: Iterable[Entry]) -> None:
        """See :meth:`statemgr.store.base.Store.put_raw`."""
        self._guard.check_open()
        batch = WriteBatch(raw_mode=True)
        put, delete = batch.put, batch.delete
        for key, value in entries:
            if value is None:
                delete(key)
            else:
                put(key, value)
        try:
            self._database.write(batch)
        except Exception as error:
            raise self._write_error(error) from error
        if self._memory_full():
            self.begin_flush()
            self.finish_flush()

    def begin_flush(self) -> None:
        """Have the background threads write what is in memory to table files.

        Raises:
            StoreWriteError: the store can't be used further.
        """
        try:
            self._database.flush(False)
        except Exception as error:
            raise self._write_error(error) from error

    def finish_flush(self) -> None:
        """Wait for it; other threads run meanwhile, which RocksDB's own waiting call would not let them.

        Raises:
            StoreWriteError: the store can't be used further.
        """
        try:
            deadline = time.monotonic() + FLUSH_TIMEOUT_S
            while self._database.property_int_value("rocksdb.num-immutable-mem-table") and time.monotonic() < deadline:
                time.sleep(FLUSH_POLL_S)
            self._database.flush(True)
        except Exception as error:
            raise self._write_error(error) from error

    def meta(self) -> StoreMeta | None:
        """See :meth:`statemgr.store.base.Store.meta`."""
        (data,) = self.get_many([META_KEY])
        if data is None:
            return None
        try:
            meta = decode_meta(data)
        except CodecError as error:
            raise read_error(error, self.task, self.epoch, str(self.directory)) from error
        if meta.format != META_FORMAT:
            raise IncompatibleStoreError(
                f"the store of {self.task}@{self.epoch} at {self.directory} has format {meta.format}, this version "
                f"writes format {META_FORMAT}; delete the directory to have it rebuilt from the changelog"
            )
        return meta

    def scan(self, prefix: bytes = b"", start: bytes = b"") -> Scan:
        """See :meth:`statemgr.store.base.Store.scan`; ``start``: leave out keys before it."""
        return Scan(self._guard, lambda: self._pairs(prefix, start))

    def _pairs(self, prefix: bytes, start: bytes) -> Pairs:
        # RocksDB's iterator sees the database as it is when the iterator is made: here, not at the first next().
        cursor = self._database.iter()
        cursor.seek(max(prefix, start))
        return self._walk(cursor, prefix)

    def _walk(self, cursor: RdictIter, prefix: bytes) -> Pairs:
        try:
            while cursor.valid():
                key: bytes = cursor.key()
                if not key.startswith(prefix):
                    return
                if len(key) != OWN_KEY_BYTES:
                    yield key, cursor.value()
                cursor.next()
            cursor.status()
        except Exception as error:
            raise read_error(error, self.task, self.epoch, str(self.directory)) from error

    def size(self) -> StoreSize:
        """See :meth:`statemgr.store.base.Store.size`: what lives in table files, and what is still in memory."""
        self._guard.check_open()
        files, memory, entries = map(self._figure, _SIZES)
        return StoreSize(entries, files + memory)

    def _figure(self, name: str) -> int:
        try:
            return self._database.property_int_value(name) or 0
        except Exception as error:
            raise read_error(error, self.task, self.epoch, str(self.directory)) from error

    def checkpoint(self, directory: Path) -> None:
        """Make a consistent copy in a directory that does not exist yet; table files are hard links."""
        self._guard.check_open()
        try:
            Checkpoint(self._database).create_checkpoint(str(directory))
        except Exception as error:
            raise write_error(error, self.task, self.epoch, str(directory)) from error

    def close(self) -> None:
        """See :meth:`statemgr.store.base.Store.close`."""
        if self._guard.mark_closed():
            try:
                self._database.close()
            except Exception as error:
                # What is not in table files is in the log; and a failed write, which is only told again, must not be
                # hidden behind this.
                if not (self._write_failed or is_full(error)):
                    raise
            finally:
                self._on_close()

    def _write_error(self, error: Exception) -> StateError:
        self._write_failed = True
        return write_error(error, self.task, self.epoch, str(self.directory))
