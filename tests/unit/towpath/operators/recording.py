"""A context for operators that notes what they report, over real task state in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from statemgr.state import TableSpec, TaskState, head_codec, json_codec
from statemgr.store import MemoryBackend, StoreMeta
from statemgr.types import TaskId


def lists_spec(name: str, id_: int = 0, note: Any = int) -> TableSpec[Any]:
    """A table of lists of rows."""
    return TableSpec(name, id_, head_codec(list[Any], note), json_codec(list[list[Any]]))


class RecordingContext:
    """Tasks 0 … ``tasks``-1 with these tables; dead letters and emitted frames are kept in lists."""

    def __init__(self, tables: Sequence[TableSpec[Any]] = (), tasks: int = 4) -> None:
        backend = MemoryBackend()
        ids = [TaskId("stage", partition) for partition in range(tasks)]
        self.tasks = {task.partition: TaskState(task, 0, backend.open(task, 0), tables) for task in ids}
        self.dead: list[tuple[int, bytes, str]] = []
        self.late_rows = 0
        self.emitted: list[tuple[str, pl.DataFrame]] = []

    def dead_letter(self, partition: int, value: bytes, reason: str) -> None:
        self.dead.append((partition, value, reason))

    def late(self, rows: int) -> None:
        self.late_rows += rows

    def emit(self, topic: str, frame: pl.DataFrame) -> None:
        self.emitted.append((topic, frame))

    def table(self, name: str) -> dict[bytes, Any]:
        """Entries of all tasks."""
        found: dict[bytes, Any] = {}
        for state in self.tasks.values():
            with state.table(name).items() as entries:
                found |= dict(entries)
        return found

    def rows(self, name: str) -> dict[bytes, list[Any]]:
        """Lists of all tasks."""
        found: dict[bytes, list[Any]] = {}
        for state in self.tasks.values():
            with state.table(name).items() as entries:
                keys = [key for key, _ in entries]
            found |= dict(zip(keys, state.lists(name).get_many(keys), strict=True))
        return found

    def commit(self) -> int:
        """Commit what has changed; gives the number of entries."""
        changed = [len(state.changes()) for state in self.tasks.values()]
        for state in self.tasks.values():
            state.apply(StoreMeta("T", 0, 0, 0, None))
        return sum(changed)
