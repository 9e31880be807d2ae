"""Reads the stores of a stopped stage into one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import polars as pl

from statemgr.layout import split_changelog_key
from statemgr.store import RocksBackend, RocksSettings, StoreMeta
from statemgr.types import TaskId
from towpath.errors import SettingsError
from towpath.query.plan import StagePlan
from towpath.stage.assignment import STATIC_EPOCH

K = TypeVar("K")

_SCHEMA = {"table": pl.String, "partition": pl.Int32, "key": pl.Binary, "value": pl.String}
_BIN_BYTES = 1


def dump_state(plan: StagePlan, state_dir: Path, output: Path) -> int:
    """Write every entry of a stage's tables to a Parquet file.

    Values are JSON, as the tables' codecs write them; bytes that are no text show as escapes. A task may have stores
    with several replicas from earlier plans; see :func:`newest`.

    Returns:
        Number of entries.

    Raises:
        SettingsError: there are no stores of the stage under ``state_dir``.
        StoreLockedError: the stage is running.
    """
    latest = latest_stores(plan, state_dir)
    if not latest:
        raise SettingsError(
            f"no stores of stage {plan.name} of {plan.app} under {state_dir}; name the directory with --state-dir"
        )
    names = {table.id: table.name for table in plan.tables}
    rows = [row for task, root in latest.items() for row in _entries(root, task, names)]
    frame = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
    output.parent.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(output)
    return frame.height


def latest_stores(plan: StagePlan, state_dir: Path) -> dict[TaskId, Path]:
    """Task → replica directory that holds its newest store."""
    found: dict[TaskId, dict[Path, StoreMeta]] = {}
    for directory in sorted((state_dir / plan.app).glob(f"{plan.name}-*/{plan.name}/*@{STATIC_EPOCH}")):
        root = directory.parents[1]
        task = TaskId(plan.name, int(directory.name.partition("@")[0]))
        backend = _backend(root)
        try:
            meta = backend.open(task, STATIC_EPOCH).meta()
        finally:
            backend.close()
        if meta is not None:
            found.setdefault(task, {})[root] = meta
    return {task: newest(stores) for task, stores in found.items()}


def newest(stores: Mapping[K, StoreMeta]) -> K:
    """Which store of a task was written last; there must be one at least.

    Offsets of one changelog tell more than the clocks of several machines. Those of a changelog that was made anew say
    nothing about the former one, so the changelog that was committed to last is chosen first.
    """
    changelog = max(stores.values(), key=lambda meta: meta.committed_at_ms).topic_id
    return max((key for key, meta in stores.items() if meta.topic_id == changelog), key=lambda key: stores[key].offset)


def _entries(root: Path, task: TaskId, names: dict[int, str]) -> Iterator[tuple[str, int, bytes, str]]:
    backend = _backend(root)
    try:
        with backend.open(task, STATIC_EPOCH).scan() as entries:
            for stored, value in entries:
                table, key = split_changelog_key(stored[_BIN_BYTES:])
                if table in names:
                    yield names[table], task.partition, key, value.decode(errors="backslashreplace")
    finally:
        backend.close()


def _backend(root: Path) -> RocksBackend:
    return RocksBackend(root, RocksSettings(lock_timeout_s=0.0))
