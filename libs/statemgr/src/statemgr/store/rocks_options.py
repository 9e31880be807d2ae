"""How the stores of a replica use RocksDB: settings, their arithmetic, and the options made of them.

Memory
    All stores of a process share one block cache, and one write-buffer manager that charges memtables to that
    cache. Index and filter blocks live in the cache too. So ``cache_bytes`` is the whole budget, with 1 store or
    with 256; what grows with the number of stores is the arena's first block (64 KiB each, charged) and about
    100 KiB of RocksDB's own bookkeeping.

    RocksDB's own manager only *starts* a flush, of the store that is just writing, and never waits; with many stores
    memtables then grow as fast as the writer is faster than the disk (seen: 72 MiB of a budget of 8 with 256
    stores). So it is given three quarters of ``write_buffer_bytes``, and a write that finds the whole taken waits
    for its store's flush (:meth:`SharedMemory.full`). ``allow_stall`` is no way: it can wait for the memtables of
    stores to which nobody writes.

Durability
    The write-ahead log stays on, unsynced: a killed process loses nothing, a lost machine loses the last batches,
    and since entries and meta share a batch, what is left is an older base. The changelog has the rest.

Filling
    A restore writes much and reads nothing. Its memtables are vectors, which take an entry for a fifth of a skip
    list's cost and are sorted by the thread that flushes them; there is no log; and compaction begins later. A vector
    can't be read in reasonable time, so the store is flushed and opened again before it is used
    (1 M entries of 110 bytes into 4 stores on 2 cores: 0.9 s of CPU time in the writing thread instead of 2.2).

Files
    ``max_open_files`` is -1: every table file stays open. A limit would make a random read of a large store reopen
    files, and a secondary reader fail when a file that it had dropped was compacted away. The number stays small
    (64 MiB files: 16 per GiB, plus about 6 per store), but 256 stores pass the usual soft limit of 1024
    descriptors, hence :func:`raise_file_limit`.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompactionStyle,
    DBCompressionType,
    MemtableFactory,
    Options,
    WriteBufferManager,
)

_KIB = 1024
_MIB = 1024 * _KIB

BLOOM_BITS_PER_KEY = 10
"""About 1 % false positives: a read of an absent key touches a data block once in a hundred times."""

ARENA_BLOCK_BYTES = 64 * _KIB
"""First allocation of a memtable. The default of 1 MiB would take a 64 MiB write-buffer budget for 64 idle stores."""

FILLING_BUFFER_BYTES = 4 * _MIB
"""Largest memtable of a store that is being filled: sorted within the processor's cache, and what is left of it at the
end is flushed soon (1 M entries in 1.4 s; in 1.7 s with 16 MiB)."""

FILLING_WRITE_BUFFERS = 4
"""Memtables of a store that is being filled: the next ones take entries while the first are sorted and flushed."""

FILLING_FILES = 10
"""Table files from which on a store is compacted while it is being filled; below, sorting them once more is for later.

RocksDB slows writes down from 20 on.
"""

WANTED_OPEN_FILES = 65_536
"""Descriptors asked for: 256 stores × (6 + 16 per GiB × 15 GiB)."""


@dataclass(frozen=True)
class RocksSettings:
    """Budget of all stores of one process together.

    Attributes:
        cache_bytes: block cache including memtables, index and filter blocks; the whole memory budget.
        write_buffer_bytes: part of ``cache_bytes`` that memtables may take before a write waits for a flush.
        store_write_buffer_bytes: memtable of one store; bounds the write-ahead log that a reopening replays
            (16 MiB: about 150 k small entries, 0.1 s).
        background_jobs: threads for flush and compaction.
        lock_timeout_s: how long to wait for a store that another process still has open. A replica that is
            killed frees it at once; one that stops cleanly needs up to its 10 s of shutdown.
    """

    cache_bytes: int = 256 * _MIB
    write_buffer_bytes: int = 64 * _MIB
    store_write_buffer_bytes: int = 16 * _MIB
    background_jobs: int = 2
    lock_timeout_s: float = 15.0

    def __post_init__(self) -> None:
        if not 0 < self.write_buffer_bytes <= self.cache_bytes:
            raise ValueError(
                f"write_buffer_bytes={self.write_buffer_bytes} must be above 0 and at most "
                f"cache_bytes={self.cache_bytes}, because memtables are charged to the cache"
            )
        if self.store_write_buffer_bytes < ARENA_BLOCK_BYTES:
            raise ValueError(
                f"store_write_buffer_bytes={self.store_write_buffer_bytes} must be at least {ARENA_BLOCK_BYTES}"
            )

    def budget_bytes(self, stores: int) -> int:
        """Memory that RocksDB may take for data with this many stores: the same for any number."""
        if stores < 0:
            raise ValueError(f"stores={stores} must not be negative")
        return self.cache_bytes


class SharedMemory:
    """The one block cache and the one write-buffer manager of a process, and the options that use them."""

    def __init__(self, settings: RocksSettings) -> None:
        self.cache = Cache(settings.cache_bytes)
        self.write_buffers = WriteBufferManager.new_write_buffer_manager_with_cache(
            settings.write_buffer_bytes * 3 // 4, False, self.cache
        )
        self._settings = settings

    def full(self) -> bool:
        """Whether memtables take all they may."""
        return self.write_buffers.get_usage() >= self._settings.write_buffer_bytes

    def options(self) -> Options:
        """Options for a store; made for each, because rocksdict consumes nothing but also promises nothing."""
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_block_based_table_factory(self._table_options())
        options.set_write_buffer_manager(self.write_buffers)
        options.set_write_buffer_size(self._settings.store_write_buffer_bytes)
        options.set_arena_block_size(ARENA_BLOCK_BYTES)
        options.set_max_background_jobs(self._settings.background_jobs)
        options.set_compaction_style(DBCompactionStyle.level())
        options.set_compression_type(DBCompressionType.lz4())
        options.set_max_open_files(-1)
        _keep_quiet(options)
        return options

    def filling_options(self) -> Options:
        """Options for a store that a restore is writing to."""
        options = self.options()
        options.set_allow_concurrent_memtable_write(False)  # a vector can't
        options.set_memtable_factory(MemtableFactory.vector())
        options.set_write_buffer_size(min(FILLING_BUFFER_BYTES, self._settings.store_write_buffer_bytes))
        options.set_max_write_buffer_number(FILLING_WRITE_BUFFERS)
        options.set_level_zero_file_num_compaction_trigger(FILLING_FILES)
        return options

    def _table_options(self) -> BlockBasedOptions:
        table = BlockBasedOptions()
        table.set_block_cache(self.cache)
        table.set_bloom_filter(BLOOM_BITS_PER_KEY, False)
        table.set_cache_index_and_filter_blocks(True)
        table.set_pin_l0_filter_and_index_blocks_in_cache(True)
        return table


def _keep_quiet(options: Options) -> None:
    """No statistics, and small logs: both are per store, and a replica has many."""
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(_MIB)
    options.set_manifest_preallocation_size(64 * _KIB)


def raise_file_limit(wanted: int = WANTED_OPEN_FILES) -> int:
    """Raise this process's soft limit of open files towards ``wanted``, within the hard limit; returns the result."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        return target
    return soft
