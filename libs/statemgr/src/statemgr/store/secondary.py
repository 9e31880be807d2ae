"""A store that is read while somebody else has it open: a RocksDB *secondary* beside the owner's database.

A secondary opens without the lock, whatever has become of the owner: at work, stopped (SIGSTOP) or killed. It follows
the owner's write-ahead log and manifest when it is asked to, batch by batch, so entries and meta always agree. It
keeps every table file open (``max_open_files`` = -1), since the owner's compactions delete files that it still reads.

One trap remains: what a secondary has read of a log stays before the table files until something is written to the next
log. So after the owner's last flush, as when it closes the store, older values would hide newer ones for ever; it then
has to be opened again (seen with rocksdict 0.3.29: a secondary of a store that was closed stayed behind in 52 of 60
tries).

Opening one rewrites the wrapper's configuration file in the store's directory with the same content, and that is all
that it changes there; its own log goes to a directory of its own.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rocksdict import AccessType, BlockBasedOptions, Cache, Options, Rdict

from statemgr.errors import NoSuchCopyError
from statemgr.store import directories
from statemgr.store.base import StoreMeta
from statemgr.store.rocks import RocksStore
from statemgr.store.rocks_errors import read_error
from statemgr.store.rocks_options import BLOOM_BITS_PER_KEY
from statemgr.store.scans import Scan
from statemgr.types import TaskId

OPEN_TRIES = 5
"""Tries to open or catch up: a file that the manifest names may be compacted away before it is opened."""

TRY_PAUSE_S = 0.02
"""Between two tries: longer than the owner needs from writing a manifest record to deleting files."""


_LOG_SUFFIX = ".log"
"""Of write-ahead logs; before it stands a number."""


class Estimates(NamedTuple):
    """About how large a store is: entries, and bytes of keys and values."""

    keys: int
    bytes: int


class SecondaryStore:
    """One task's store, read only, as of the last :meth:`catch_up`.

    Args:
        task: the task.
        epoch: the store's epoch.
        directory: the owner's directory.
        scratch: directory for the secondary's own files; made here and removed at close.
        cache: block cache, shared by all secondaries of the process.

    Raises:
        NoSuchCopyError: there is no store in the directory.
        CorruptStoreError: it cannot be read.
        IncompatibleStoreError: it was written with another format or other options.
    """

    def __init__(self, task: TaskId, epoch: int, directory: Path, scratch: Path, cache: Cache) -> None:
        self._directory = directory
        self._scratch = scratch
        self._cache = cache
        _require_store(task, epoch, directory)
        self._identity = directories.identity(directory)
        self._database, self._store = self._opened(task, epoch)

    def meta(self) -> StoreMeta | None:
        """See :meth:`statemgr.store.base.Store.meta`."""
        return self._store.meta()

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See :meth:`statemgr.store.base.Store.get_many`."""
        return self._store.get_many(keys)

    def scan(self, prefix: bytes = b"", start: bytes = b"") -> Scan:
        """See :meth:`statemgr.store.base.Store.scan`; ``start``: leave out keys before it."""
        return self._store.scan(prefix, start)

    def is_current(self) -> bool:
        """Whether the store is still the one under that name; another may have been made since."""
        return directories.identity(self._directory) == self._identity

    def catch_up(self) -> None:
        """Take in what the owner has written.

        Raises:
            NoSuchCopyError: the store was deleted, or made anew under the same name.
            CorruptStoreError: it cannot be read any more.
            OpenScanError: a scan is live, and the store has to be opened again.
        """
        if not self.is_current():
            raise NoSuchCopyError(f"the store at {self._directory} was deleted")
        for left in reversed(range(OPEN_TRIES)):
            try:
                self._database.try_catch_up_with_primary()
            except Exception as error:
                if not left:
                    raise read_error(error, self._store.task, self._store.epoch, str(self._directory)) from error
                time.sleep(TRY_PAUSE_S)
            else:
                break
        if self._hides_newer():
            task, epoch = self._store.task, self._store.epoch
            self._store.close()
            self._database, self._store = self._opened(task, epoch)

    def estimates(self) -> Estimates:
        """About how large it is."""
        in_memory = self._property("rocksdb.cur-size-all-mem-tables")
        return Estimates(
            self._property("rocksdb.estimate-num-keys"), self._property("rocksdb.estimate-live-data-size") + in_memory
        )

    def close(self) -> None:
        """Free memory and files; closing twice is allowed.

        Raises:
            OpenScanError: a scan is live.
        """
        self._store.close()

    def _property(self, name: str) -> int:
        return int(self._database.property_int_value(name) or 0)

    def _hides_newer(self) -> bool:
        """Whether entries of a log are held in memory although all logs have been flushed to table files."""
        logs = [entry for entry in os.scandir(self._directory) if entry.name.endswith(_LOG_SUFFIX)]
        newest = max(logs, key=lambda entry: int(entry.name.removesuffix(_LOG_SUFFIX)), default=None)
        if newest is None:
            return False
        try:
            flushed = newest.stat().st_size == 0
        except FileNotFoundError:  # flushed a moment ago; the next look finds its successor
            return False
        return flushed and self._property("rocksdb.num-entries-active-mem-table") > 0

    def _opened(self, task: TaskId, epoch: int) -> tuple[Rdict, RocksStore]:
        database = self._open(task, epoch, self._cache)
        return database, RocksStore(task, epoch, self._directory, database, lambda: False, self._remove_scratch)

    def _open(self, task: TaskId, epoch: int, cache: Cache) -> Rdict:
        self._scratch.mkdir(parents=True, exist_ok=True)
        for left in reversed(range(OPEN_TRIES)):
            try:
                return Rdict(
                    str(self._directory),
                    _options(cache),
                    column_families={"default": _options(cache)},  # or those of the store's files, cache included
                    access_type=AccessType.secondary(str(self._scratch)),
                )
            except Exception as error:
                if not left or not directories.is_store(self._directory):
                    self._remove_scratch()
                    raise self._open_error(error, task, epoch) from error
                time.sleep(TRY_PAUSE_S)
        raise AssertionError("the last try returns or raises")

    def _open_error(self, error: Exception, task: TaskId, epoch: int) -> Exception:
        if directories.is_store(self._directory):
            return read_error(error, task, epoch, str(self._directory))
        directories.remove_husk(self._directory)
        return NoSuchCopyError(f"the store {task}@{epoch} at {self._directory} was deleted")

    def _remove_scratch(self) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)


def _require_store(task: TaskId, epoch: int, directory: Path) -> None:
    if not directories.is_store(directory):
        raise NoSuchCopyError(f"there is no store {task}@{epoch} at {directory}")
    directories.check_mark(directory)


def _options(cache: Cache) -> Options:
    """Options of a reader; what concerns the files' format comes with the files."""
    table = BlockBasedOptions()
    table.set_block_cache(cache)
    table.set_bloom_filter(BLOOM_BITS_PER_KEY, False)
    table.set_cache_index_and_filter_blocks(True)
    options = Options(raw_mode=True)
    options.create_if_missing(False)
    options.set_block_based_table_factory(table)
    options.set_max_open_files(-1)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    options.set_keep_log_file_num(1)
    return options
