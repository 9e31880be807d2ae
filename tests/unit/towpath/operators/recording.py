"""A context for operators that notes what they report, over real task state in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from statemgr.state import TableSpec, TaskState
from statemgr.store import MemoryBackend
from statemgr.types import TaskId


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
