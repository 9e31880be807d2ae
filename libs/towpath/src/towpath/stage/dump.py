"""Reads the stores of a stopped stage into one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from statemgr.errors import StoreLockedError
from statemgr.layout import list_table, split_changelog_key, split_chunk_key
from statemgr.migration.layered import record_of
from statemgr.store import RocksBackend, RocksSettings, RocksStore, StoreMeta
from statemgr.store.directories import stores_under
from statemgr.types import TaskId
from towpath.errors import SettingsError
from towpath.query.plan import StagePlan

_SCHEMA = {"table": pl.String, "partition": pl.Int32, "key": pl.Binary, "value": pl.String}
_BIN_BYTES = 1


def dump_state(plan: StagePlan, state_dir: Path, output: Path) -> int:
    """Write every entry of a stage's tables to a Parquet file.

    Values are JSON, as the tables' codecs write them; bytes that are no text show as escapes. A list is its head (see
    :class:`statemgr.lists.ListHead`), and under the same key the chunks of its older rows, in order, as another table.
    A task may have stores of several replicas and epochs; see :func:`newest`.

    Returns:
        Number of entries.

    Raises:
        SettingsError: there are no stores of the stage under ``state_dir``, or only a part of a task's state.
        StoreLockedError: the stage is running; the text says so.
    """
    latest = latest_stores(plan, state_dir)
    if not latest:
        raise SettingsError(
            f"no stores of stage {plan.name} of {plan.app} under {state_dir}; name the directory with --state-dir"
        )
    tables = [*plan.tables, *(table.of_chunks for table in plan.tables if table.chunks is not None)]
    names = {table.id: table.name for table in tables}
    for task, store in latest.items():
        if not store.complete:
            raise SettingsError(
                f"{task} had only a part of its state when it was stopped, in {store.root} under epoch {store.epoch}: "
                "start the stage again, and stop it once towpath tasks says that every task is complete"
            )
    rows = [row for task, store in latest.items() for row in _entries(store, task, names)]
    frame = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
    output.parent.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(output)
    return frame.height


@dataclass(frozen=True)
class Found:
    """A store of a task.

    Attributes:
        root: directory of the replica that has it.
        epoch: its epoch.
        complete: whether all of the task's state is in it.
    """

    root: Path
    epoch: int
    complete: bool = True


def latest_stores(plan: StagePlan, state_dir: Path) -> dict[TaskId, Found]:
    """Task → its newest store, over all replicas and epochs."""
    found: dict[TaskId, dict[Found, StoreMeta]] = {}
    for stage_dir in sorted((state_dir / plan.app).glob(f"*/{plan.name}")):
        with closing(_backend(stage_dir.parent)) as backend:
            for task, epoch in stores_under(stage_dir.parent):
                store = _open(backend, task, epoch)
                meta = store.meta()
                if meta is not None and task.stage == plan.name:
                    item = Found(stage_dir.parent, epoch, record_of(store) is None)
                    found.setdefault(task, {})[item] = meta
    return {task: newest(stores) for task, stores in found.items()}


def newest(stores: Mapping[Found, StoreMeta]) -> Found:
    """Which store of a task was written last; there must be one at least.

    Offsets of one changelog tell more than the clocks of several machines. Those of a changelog that was made anew say
    nothing about the former one, so the changelog that was committed to last is chosen first. Of two stores that stand
    at the same offset the one that has all of the state is chosen.
    """
    changelog = max(stores.values(), key=lambda meta: meta.committed_at_ms).topic_id
    return max(
        (store for store, meta in stores.items() if meta.topic_id == changelog),
        key=lambda store: (stores[store].offset, store.complete, store.epoch),
    )


def _entries(store: Found, task: TaskId, names: dict[int, str]) -> Iterator[tuple[str, int, bytes, str]]:
    with closing(_backend(store.root)) as backend, _open(backend, task, store.epoch).scan() as entries:
        for stored, value in entries:
            table, key = split_changelog_key(stored[_BIN_BYTES:])
            if table in names:
                key = key if list_table(table) is None else split_chunk_key(key)[0]
                yield names[table], task.partition, key, value.decode(errors="backslashreplace")


def _backend(root: Path) -> RocksBackend:
    return RocksBackend(root, RocksSettings(lock_timeout_s=0.0))


def _open(backend: RocksBackend, task: TaskId, epoch: int) -> RocksStore:
    try:
        return backend.open(task, epoch)
    except StoreLockedError as error:
        raise StoreLockedError(
            f"stage {task.stage} still runs, and has the store of {task} locked: stop it first (Ctrl-C or SIGTERM of "
            f"towpath run or its container), then dump its state ({backend.describe(task, epoch)})"
        ) from error
