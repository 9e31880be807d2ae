"""Stores: the committed state of a task, in memory or in RocksDB, behind one interface."""

from statemgr.store.base import (
    EMPTY_OFFSET,
    META_FORMAT,
    META_KEY,
    Entry,
    Store,
    StoreBackend,
    StoreMeta,
    StoreSize,
    decode_meta,
    encode_meta,
)
from statemgr.store.memory import MemoryBackend, MemoryStore
from statemgr.store.rocks import RocksStore
from statemgr.store.rocks_backend import RocksBackend
from statemgr.store.rocks_options import RocksSettings

__all__ = [
    "EMPTY_OFFSET",
    "META_FORMAT",
    "META_KEY",
    "Entry",
    "MemoryBackend",
    "MemoryStore",
    "RocksBackend",
    "RocksSettings",
    "RocksStore",
    "Store",
    "StoreBackend",
    "StoreMeta",
    "StoreSize",
    "decode_meta",
    "encode_meta",
]
