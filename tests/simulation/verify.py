"""What is checked of stores, amid a run and when it has come to rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from statemgr.layout import TOMBSTONE_TABLE, scratch_task
from statemgr.store import StoreMeta
from statemgr.store.base import UNFINISHED_KEY
from statemgr.types import TaskId
from tests.simulation.application import STAGE
from tests.simulation.disks import Disk
from tests.simulation.invariants import LogWatch, TaskHistory, store_differences

_TOMBSTONE = TOMBSTONE_TABLE.to_bytes(2, "big")


def disk_differences(disks: Mapping[str, Disk], watch: LogWatch, topic_id: str) -> Iterator[str]:
    """Every store on every disk against what the changelog says as of the store's own offset (I4)."""
    for name, disk in disks.items():
        for task, epoch in disk.copies():
            content = disk.stores._contents[task][epoch]
            if content.meta is not None and content.meta.topic_id == topic_id:
                at = f"store {task}@{epoch} of {name}"
                whose = TaskId(STAGE, task.partition)
                scratch = task == scratch_task(whose)
                yield from _store_differences(
                    at, epoch, content.entries, content.meta, watch.of(whose), scratch=scratch
                )


def _store_differences(
    at: str, epoch: int, entries: dict[bytes, bytes], meta: StoreMeta, history: TaskHistory, *, scratch: bool
) -> Iterator[str]:
    """Exactly as of the store's X, if its owner has committed; a copy of a store that is written may have newer values.

    What was made of a changelog that is written on may also have older ones, where the one at X was compacted away. The
    changelog's tail makes all of them exact before the first row.
    """
    mine = {key: value for key, value in entries.items() if len(key) > 1}
    tombstones = frozenset(key[:1] + key[3:] for key in mine if key.startswith(_TOMBSTONE, 1))
    values = {key: value for key, value in mine.items() if not key.startswith(_TOMBSTONE, 1)}
    if meta.progress is not None and meta.progress.epoch == epoch:
        yield from store_differences(at, values, tombstones, lambda key: [history.value_at(key, meta.offset)])
    elif UNFINISHED_KEY in entries or scratch:
        yield from store_differences(at, values, tombstones, lambda key: history.values_around(key, meta.offset))
    else:
        yield from store_differences(at, values, tombstones, lambda key: history.values_from(key, meta.offset))
