"""Every name that more than one part must agree on: topics, groups, transactional ids, directories, keys.

Key formats::

    changelog key  =  table id (2 bytes, big endian) + key bytes
    store key      =  bin (1 byte) + changelog key
    list's chunk   =  table id + 0x8000, key bytes, number (4 bytes, big endian), 1 byte that makes its bin the list's

The bin is a hash slice of a task's keys, the unit of background migration. It uses CRC32, because with the
partitioner's murmur2 for both, a task's keys would fall into a fraction of the bins (R9).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path

from statemgr.types import TaskId

BIN_COUNT = 256
"""Bins of a task; one byte of key prefix."""

PROGRESS_TABLE = 0xFFFF
"""Table id of the progress record."""

MAX_TABLES = 0x7F00
"""Table ids from here on are the library's own."""

CHUNK_TABLES = 0x8000
"""A list table's chunks are under its id and this."""

PROGRESS_KEY = PROGRESS_TABLE.to_bytes(2, "big")
"""Changelog key of the progress record."""

TOMBSTONE_TABLE = 0xFFFE
"""Table id under which a store keeps explicit tombstones while a bin is incomplete (R7); never in a changelog."""

MIGRATION_KEY = b"\x01"
"""Store key of the migration record: layers and complete bins. One byte, so that no entry can meet it."""

HOT_KEY = b"\x02"
"""Store key of the hot set: the store keys most used lately, hottest first."""


REPLICA_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
"""What a replica may be called: its name is a directory, and part of transactional ids and URLs."""

SECONDARY_DIRECTORY = ".secondary"
"""Under a replica's directory: private files of those who read its stores while they are in use."""

ENDPOINT_FILE = "statemgr.json"
"""In a replica's directory: where its state manager listens."""


def consumer_group(app: str, stage: str) -> str:
    """Group id under which a stage's offsets are shown to lag tools."""
    return f"{app}.{stage}"


def transactional_id(app: str, stage: str, replica: str) -> str:
    """Stable per replica name, so that a restarted replica fences its former self (R3)."""
    return f"{app}.{stage}.{replica}"


def edge_topic(app: str, producer: str, consumer: str) -> str:
    """Topic between two stages."""
    return f"{app}.{producer}-{consumer}"


def changelog_topic(app: str, stage: str) -> str:
    """The one changelog of a stage (R22)."""
    return f"{app}.{stage}.changelog"


def control_topic(app: str) -> str:
    """The control log of an application: one compacted partition."""
    return f"{app}.control"


def coordinator_id(app: str) -> str:
    """Transactional id of the coordinator: the newer instance fences the older (R19)."""
    return f"{app}.coordinator"


def dead_letter_topic(app: str) -> str:
    """Where records go that no stage of the application can process."""
    return f"{app}.dead-letter"


def store_directory(root: Path, task: TaskId, epoch: int) -> Path:
    """Directory of a task's store; never reused for another epoch (R8)."""
    return root / task.stage / f"{task.partition}@{epoch}"


def scratch_task(task: TaskId) -> TaskId:
    """Under whose name a backend keeps what a task's state is rebuilt into beside its store (R10)."""
    return TaskId(f"{task.stage}.scratch", task.partition)


def changelog_key(table: int, key: bytes) -> bytes:
    """Key of a table entry in the changelog."""
    return table.to_bytes(2, "big") + key


def split_changelog_key(key: bytes) -> tuple[int, bytes]:
    """Inverse of :func:`changelog_key`."""
    return int.from_bytes(key[:2], "big"), key[2:]


def list_table(table: int) -> int | None:
    """Id of the list table whose chunks are under this id; None: it is no such id."""
    return table - CHUNK_TABLES if CHUNK_TABLES <= table < CHUNK_TABLES + MAX_TABLES else None


def chunk_keys(list_key: bytes, numbers: Iterable[int]) -> list[bytes]:
    """Changelog keys of a list's chunks, in the same bin as the list.

    A byte at the end sees to that, and is found without a search: the low byte of a CRC32 after one byte more is
    another one for each of the 256. So whoever computes bins need not know of lists.

    Args:
        list_key: changelog key of the list.
        numbers: of the chunks, from 0 on.
    """
    table, key = split_changelog_key(list_key)
    stem = changelog_key(table + CHUNK_TABLES, key)
    begun, wanted = zlib.crc32(stem), ~bin_of(list_key)
    found: list[bytes] = []
    for number in numbers:
        digits = number.to_bytes(_NUMBER_BYTES, "big")
        register = ~zlib.crc32(digits, begun)
        index = _CRC_INDEX[(wanted ^ (register >> 8)) & 0xFF]
        found.append(stem + digits + BIN_PREFIXES[(register ^ index) & 0xFF])
    return found


def split_chunk_key(key: bytes) -> tuple[bytes, int]:
    """Inverse of :func:`chunk_keys`, both without the table id: the list's key, and the chunk's number."""
    stem, number = key[: -_NUMBER_BYTES - 1], key[-_NUMBER_BYTES - 1 : -1]
    return stem, int.from_bytes(number, "big")


def bin_of(changelog_key_: bytes) -> int:
    """Bin of an entry, 0 … 255."""
    return zlib.crc32(changelog_key_) & 0xFF


def tombstone_key(store_key_: bytes) -> bytes:
    """Store key of an entry's explicit tombstone: in the same bin."""
    return store_key_[:1] + _TOMBSTONE + store_key_[1:]


BIN_PREFIXES = tuple(bytes((number,)) for number in range(BIN_COUNT))
"""What stands before a changelog key in a store, by bin."""


def store_key(changelog_key_: bytes) -> bytes:
    """Key of an entry in a task's store."""
    return BIN_PREFIXES[zlib.crc32(changelog_key_) & 0xFF] + changelog_key_


_NUMBER_BYTES = 4

_CRC_INDEX = {~zlib.crc32(b"\0", ~index & 0xFFFFFFFF) & 0xFF: index for index in range(256)}
"""Low byte of an entry of CRC32's table → the entry's index; a CRC of register ``index`` and byte 0 is that entry."""

_TOMBSTONE = TOMBSTONE_TABLE.to_bytes(2, "big")
