"""Event time of a replica's tasks: from rows and marks to watermarks, and from these to the marks that go on.

::

    source: newest event time of a partition − lag ─┐
    inner edge: marks of all tasks before it ───────┴─▶ watermark ──▶ late rows, timers ──▶ marks on all inner edges

A task's watermark is part of its progress record, so that it moves with the task; see :mod:`statemgr.watermarks`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from statemgr.types import TopicPartition
from statemgr.watermarks import IDLE, NEVER, Watermarks
from towpath.operators.marks import Marks
from towpath.query.plan import WATERMARK, EventTime, StagePlan
from towpath.stage import columns
from towpath.stage.intake import Batch, Part
from towpath.stage.tasks import OwnedTask

MARK_INTERVAL_S = 0.1
"""Shortest time between two marks on the same edge: a record for each task of the next stage."""


LOOK_AGAIN_S = 1.0
"""After an input that was silent was found not to be at its end."""

AtEnd = Callable[[TopicPartition], bool]
"""Whether an input has been read to its end, by the broker's word."""


class StageTime:
    """What a replica knows of event time.

    Args:
        plan: of the stage.
        tasks: number of the stage's tasks, those of other replicas included.
    """

    def __init__(self, plan: StagePlan, tasks: int) -> None:
        self._sources: Mapping[str, EventTime] = {
            item.topic: item.event_time for item in plan.inputs if item.event_time is not None
        }
        self._topics = [item.topic for item in plan.inputs]
        self._count = tasks
        self._tasks: Mapping[int, OwnedTask] = {}
        self._said: dict[int, int] = {}
        self._look_s: dict[TopicPartition, float] = {}
        self._news: list[_News] = []
        self._marked_s = float("-inf")

    def own(self, tasks: Mapping[int, OwnedTask], now_s: float) -> None:
        """These are the tasks now. What a former owner has said of one is said again."""
        before, self._tasks = self._tasks, dict(tasks)
        for partition, task in tasks.items():
            if task.watermarks is None:
                task.watermarks = Watermarks(
                    _upstreams(self._topics, task.recorded_watermarks), task.recorded_watermarks
                )
            if before.get(partition) is not task:
                self._said.pop(partition, None)
                for topic, source in self._sources.items():
                    self._look_s[TopicPartition(topic, partition)] = now_s + source.idle_s

    def watermark(self, partition: int) -> int:
        """The task's own watermark, in ms of event time."""
        marks = self._tasks[partition].watermarks
        return NEVER if marks is None else marks.current

    def take(self, batch: Batch, now_s: float, *, stamp: bool) -> Batch:
        """Read what a batch says of event time; :meth:`advance` is to follow when the batch has been taken.

        Args:
            batch: records as they come.
            now_s: monotonic time.
            stamp: rows are to have the watermark at which they came, too.
        """
        self._news = []
        stamps: list[npt.NDArray[np.int64]] = []
        begin = 0
        for part in batch.parts:
            rows = int(part.rows.sum())
            if part.topic in self._sources:
                frame = pl.DataFrame() if batch.frame is None else batch.frame.slice(begin, rows)
                stamps.append(self._of_rows(part, frame, now_s))
            else:
                stamps.append(np.repeat(self._of_marks(part), part.rows))
            begin += rows
        if not stamp or batch.frame is None:
            return batch
        return replace(batch, frame=batch.frame.with_columns(pl.Series(WATERMARK, np.concatenate(stamps), pl.Int64)))

    def advance(self, stops: Mapping[TopicPartition, int]) -> None:
        """Move watermarks on by the batch that was taken.

        Args:
            stops: of inputs that were not taken whole: the offset of the first record that was not. It and those behind
                it come again, and what they say is not known yet.
        """
        for news in self._news:
            marks = self._tasks[news.source.partition].watermarks
            if marks is not None and news.offset < stops.get(news.source, news.offset + 1):
                marks.expect(news.source.topic, news.of)
                marks.mark(news.upstream, news.mark_ms, news.source.topic, news.offset)
        self._news = []

    def rest(self, now_s: float, at_end: AtEnd) -> None:
        """Note inputs from which nothing has come for long because they have nothing; to be called every turn."""
        for source, look_s in self._look_s.items():
            task = self._tasks.get(source.partition)
            if now_s < look_s or task is None or task.watermarks is None or task.full or task.migrating:
                continue
            if at_end(source):
                task.watermarks.mark(source.topic, IDLE, source.topic, task.positions[source.topic])
                self._look_s[source] = float("inf")  # until something comes
            else:
                self._look_s[source] = now_s + LOOK_AGAIN_S

    def say(self, held: Callable[[int], int | None], now_s: float) -> Marks | None:
        """What the next stages are to be told; None: nothing new, or the last time was just now.

        Args:
            held: of a task: a moment that its watermark must not reach yet; None: nothing holds it.
            now_s: monotonic time.
        """
        if now_s - self._marked_s < MARK_INTERVAL_S:
            return None
        news: dict[int, int] = {}
        for partition, task in self._tasks.items():
            mark = self._mark_of(task, held(partition))
            if mark != NEVER and self._said.get(partition) != mark:
                self._said[partition] = news[partition] = mark
        if not news:
            return None
        self._marked_s = now_s
        return Marks(self._count, news)

    def _mark_of(self, task: OwnedTask, held: int | None) -> int:
        if task.watermarks is None:
            return NEVER
        task.watermarks.advance_out([] if held is None else [held - 1])
        return IDLE if task.watermarks.idle and held is None else task.watermarks.out

    def _of_rows(self, part: Part, frame: pl.DataFrame, now_s: float) -> npt.NDArray[np.int64]:
        """Watermark before each row of a source."""
        plan = self._sources[part.topic]
        owner = np.repeat(part.partitions, part.rows)
        offset = np.repeat(columns.offsets(part.messages), part.rows)
        stamps = np.full(len(owner), NEVER, np.int64)
        if not len(owner):
            return stamps
        times = frame.get_column(plan.column).cast(pl.Int64).fill_null(NEVER).to_numpy()
        for partition in np.unique(owner).tolist():
            source, at = TopicPartition(part.topic, partition), np.flatnonzero(owner == partition)
            self._look_s[source] = now_s + plan.idle_s
            current = self.watermark(partition)
            reached = np.maximum.accumulate(np.maximum(times[at] - plan.lag_ms, current))
            stamps[at] = np.concatenate([[current], reached[:-1]])
            self._news.append(_News(source, int(offset[at[-1]]), part.topic, int(reached[-1])))
        return stamps

    def _of_marks(self, part: Part) -> npt.NDArray[np.int64]:
        """Watermark at each record of an inner edge."""
        found = np.empty(len(part.partitions), np.int64)
        for partition in np.unique(part.partitions).tolist():
            found[part.partitions == partition] = self.watermark(partition)
        if not part.marks:
            return found
        offsets = columns.offsets(part.messages)
        tried: dict[int, Watermarks] = {}
        for index, marks in part.marks.items():
            partition = int(part.partitions[index])
            source, offset = TopicPartition(part.topic, partition), int(offsets[index])
            known = self._tasks[partition].watermarks
            if known is None:
                continue
            ahead = tried.setdefault(partition, known.copy())
            of = tuple(_name(part.topic, each) for each in range(marks.tasks))
            ahead.expect(part.topic, of)
            for each, mark_ms in marks.marks.items():
                ahead.mark(of[each], mark_ms, part.topic, offset)
                self._news.append(_News(source, offset, of[each], mark_ms, of))
            behind = np.flatnonzero(part.partitions[index:] == partition) + index
            found[behind] = ahead.current
        return found


class _News(NamedTuple):
    """A mark of a batch that is not taken yet; ``of``: the upstream tasks of its input."""

    source: TopicPartition
    offset: int
    upstream: str
    mark_ms: int
    of: Sequence[str] = ()


def _name(topic: str, task: int) -> str:
    return f"{topic}#{task}"


def _upstreams(topics: list[str], recorded: Mapping[str, int]) -> list[str]:
    """Names that hold the watermark: an input's tasks as far as they are known, else the input as a whole."""
    names: list[str] = []
    for topic in topics:
        names += [name for name in recorded if name.startswith(f"{topic}#")] or [topic]
    return names
