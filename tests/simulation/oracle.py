"""What the output and the state must be: computed in one go from the input log, in order (I2, I3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.simulation.rows import IDLE, Output, decode_record

UPSTREAMS = ("a", "b")

NEVER = -(2**62)
"""Watermark before any mark."""


@dataclass
class Expected:
    """Outcome of one partition.

    Attributes:
        outputs: one per input row, in input order.
        counts: key → count at the end.
        watermark: the watermark at the end.
    """

    outputs: list[Output] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    watermark: int = 0


class EventTime:
    """The rule in few lines, apart from the code that is judged (R14)."""

    def __init__(self) -> None:
        self.reached = NEVER
        self._marks = dict.fromkeys(UPSTREAMS, NEVER)

    def mark(self, upstream: str, mark_ms: int) -> None:
        before = self._marks[upstream]
        if mark_ms == IDLE or before == IDLE or mark_ms > before:
            self._marks[upstream] = mark_ms
        active = [mark for mark in self._marks.values() if mark != IDLE]
        self.reached = max(self.reached, min(active, default=NEVER))


def compute(records: Iterable[tuple[int, bytes]]) -> Expected:
    """The batch computation over one partition's records (offset, value)."""
    expected, time = Expected(), EventTime()
    for offset, value in records:
        record = decode_record(value)
        for index, row in enumerate(record.rows):
            count = 0 if row.delete else expected.counts.get(row.key, 0) + 1
            if row.delete:
                expected.counts.pop(row.key, None)
            else:
                expected.counts[row.key] = count
            expected.outputs.append(Output(offset, index, row.key, count, row.event_ms < time.reached, row.event_ms))
        time.mark(record.upstream, record.mark_ms)
    expected.watermark = time.reached
    return expected


def differences(partition: int, expected: Expected, outputs: Sequence[Output]) -> list[str]:
    """What is wrong with the committed outputs of a partition; empty if nothing is."""
    rows = [output for output in outputs if not output.is_mark]
    return [
        f"partition {partition}: {text}"
        for text in (*_audit(expected.outputs, rows), *_order(expected.outputs, rows), *_marks(expected, outputs))
    ]


def _audit(expected: Sequence[Output], rows: Sequence[Output]) -> Iterable[str]:
    """Every (offset, row) exactly once, and each with the right values."""
    wanted, found = Counter(expected), Counter(rows)
    for output, times in (wanted - found).items():
        yield f"missing {times}× {output}"
    for output, times in (found - wanted).items():
        yield f"not expected {times}× {output}"


def _order(expected: Sequence[Output], rows: Sequence[Output]) -> Iterable[str]:
    """Each key's outputs in input order (I3)."""
    last: dict[str, Output] = {}
    for output in rows:
        before = last.get(output.key)
        if before is not None and (before.offset, before.row) >= (output.offset, output.row):
            yield f"key {output.key}: {output} after {before}"
        last[output.key] = output


def _marks(expected: Expected, outputs: Sequence[Output]) -> Iterable[str]:
    """Watermarks never go back, no row that is not late follows a later one, and the last is as late as it can be."""
    mark = None
    for output in outputs:
        if output.is_mark:
            if mark is not None and output.event_ms <= mark:
                yield f"watermark {output.event_ms} after {mark}"
            mark = output.event_ms
        elif mark is not None and not output.late and output.event_ms < mark:
            yield f"{output} behind the watermark {mark} (R14)"
    if expected.watermark > 0 and mark != expected.watermark:
        yield f"last watermark is {mark}, not {expected.watermark}"
