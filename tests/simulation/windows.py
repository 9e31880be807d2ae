"""The case of event time: a real query of windows, run by the processor that runs queries.

Rows and watermarks of two upstream tasks come over an inner edge. Results go to a next stage over another one, with the
watermarks that are sent on, and rows that come too late for their window to a topic of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

import msgspec
import polars as pl

from statemgr.types import TopicPartition
from statemgr.watermarks import IDLE as IDLE_MARK
from tests.simulation.application import APP, INPUT, OUTPUT, STAGE
from tests.simulation.case import PREFIX_BYTES, Committed
from tests.simulation.invariants import TaskHistory
from tests.simulation.oracle import UPSTREAMS
from tests.simulation.rows import IDLE, Record
from tests.simulation.window_oracle import differences
from towpath.operators.arrow_frames import decode_frame, encode_frames
from towpath.operators.marks import Marks, decode_marks, encode_marks
from towpath.query import Query, agg, hopping
from towpath.query.plan import StagePlan
from towpath.stage.processor import FrameProcessor, MakeProcessor

LATE = "late"
"""Topic of late rows."""

MOST_ROWS = 10
"""Rows of a record; the number of a row is that of its record in the load, times this, and its place in it."""

SCHEMA = {"key": pl.String, "t": pl.Int64, "number": pl.Int64}


@dataclass(frozen=True)
class Windows:
    """Rows and the sum of their numbers by key and window; see :class:`tests.simulation.case.Case`.

    Attributes:
        size_ms: of the windows.
        slide_ms: between their begins.
    """

    size_ms: int
    slide_ms: int

    outputs: ClassVar[tuple[str, ...]] = (OUTPUT, LATE)
    make_processor: ClassVar[MakeProcessor] = FrameProcessor

    def plan(self, partitions: int) -> StagePlan:
        """See the protocol."""
        return windows_plan(self.size_ms, self.slide_ms, partitions)

    def encode(self, number: int, record: Record) -> Sequence[bytes]:
        """Rows, and behind them the watermark."""
        mark_ms = IDLE_MARK if record.mark_ms == IDLE else record.mark_ms
        marks = encode_marks(Marks(len(UPSTREAMS), {UPSTREAMS.index(record.upstream): mark_ms}))
        if not record.rows:
            return [marks]
        rows = [(row.key, row.event_ms, number * MOST_ROWS + place) for place, row in enumerate(record.rows)]
        return [*encode_frames(pl.DataFrame(rows, schema=SCHEMA, orient="row")), marks]

    def entry(self, number: int, history: TaskHistory) -> bytes:
        """One of the windows that there were."""
        known = sorted(history.versions)
        return known[number % len(known)][PREFIX_BYTES:] if known else b'["k0",0]'

    def order(self) -> OnceAndInTime:
        """See the protocol."""
        return OnceAndInTime()

    def differences(self, committed: Committed) -> Iterator[str]:
        """Results, late rows, watermarks and what is open, against the batch computation over the input (I2, R14)."""
        inputs = [committed.input(partition) for partition in range(committed.partitions)]
        results = [committed.output(OUTPUT, partition) for partition in range(committed.partitions)]
        late = [value for partition in range(committed.partitions) for value in committed.output(LATE, partition)]
        yield from differences(inputs, results, late, self.size_ms, self.slide_ms, committed.state_differences)


@cache
def windows_plan(size_ms: int, slide_ms: int, partitions: int) -> StagePlan:
    """The stage of the windows alone."""
    query = Query(APP, partitions=partitions)
    rows = query.source("source", schema=SCHEMA, event_time="t")
    windows = rows.key_by("key").stage(STAGE).window(hopping(size_ms, slide_ms), on="t").late_to(LATE)
    windows.aggregate(n=agg.count(), total=agg.sum("number")).stage("next").sink("sink")
    stage = query.plan().stage(STAGE)
    (source,), (results, late) = stage.inputs, stage.outputs
    return replace(stage, inputs=(replace(source, topic=INPUT),), outputs=(replace(results, topic=OUTPUT), late))


class OnceAndInTime:
    """No window has two results (I2), and none is earlier than its task's watermark before it (R14)."""

    def __init__(self) -> None:
        self._seen: set[tuple[object, ...]] = set()
        self._marks: dict[int, int] = {}

    def complaint(self, at: TopicPartition, value: bytes) -> str | None:
        """See :class:`tests.simulation.case.Order`."""
        if at.topic == LATE:
            row = msgspec.json.decode(value)
            return self._again("late row", row["number"], row["window_end"])
        marks = decode_marks(value)
        if marks is not None:
            return self._marked(at.partition, marks.marks.get(at.partition, IDLE_MARK))
        rows = decode_frame(value).select("key", "window_end").iter_rows()
        found = (self._result(at.partition, key, end) for key, end in rows)
        return next((text for text in found if text is not None), None)

    def _marked(self, partition: int, mark_ms: int) -> str | None:
        if mark_ms == IDLE_MARK:
            return None
        before = self._marks.get(partition, mark_ms)
        self._marks[partition] = mark_ms
        return f"has the watermark {mark_ms} after {before} (R14)" if mark_ms < before else None

    def _result(self, partition: int, key: str, end: int) -> str | None:
        mark = self._marks.get(partition)
        if mark is not None and end - 1 < mark:
            return f"has the window of {key} that ended at {end} behind the watermark {mark} (R14)"
        return self._again("result", partition, key, end)

    def _again(self, *what: object) -> str | None:
        if what in self._seen:
            return f"has a second {what} (I2)"
        self._seen.add(what)
        return None
