"""What the output and the state must be: computed in one go from the input log, in order (I2, I3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from statemgr.watermarks import IDLE as IDLE_MARK
from statemgr.watermarks import Watermarks
from tests.simulation.rows import IDLE, Output, decode_record

UPSTREAMS = ("a", "b")


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


def compute(records: Iterable[tuple[int, bytes]]) -> Expected:
    """The batch computation over one partition's records (offset, value)."""
    expected, marks = Expected(), Watermarks(UPSTREAMS)
    for offset, value in records:
        record = decode_record(value)
        for index, row in enumerate(record.rows):
            count = 0 if row.delete else expected.counts.get(row.key, 0) + 1
            if row.delete:
                expected.counts.pop(row.key, None)
            else:
                expected.counts[row.key] = count
            expected.outputs.append(Output(offset, index, row.key, count, marks.late(row.event_ms), row.event_ms))
        marks.mark(record.upstream, IDLE_MARK if record.mark_ms == IDLE else record.mark_ms, "rows", offset)
    expected.watermark = marks.current
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
            yield f"{output} behind the watermark {mark} (I7)"
    if expected.watermark > 0 and mark != expected.watermark:
        yield f"last watermark is {mark}, not {expected.watermark}"
