"""What windows must give: computed in one go from the input logs, in order, apart from the code that is judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from statemgr.layout import changelog_key
from statemgr.watermarks import IDLE as IDLE_MARK
from tests.simulation.oracle import NEVER, UPSTREAMS, EventTime
from tests.simulation.rows import IDLE
from towpath.operators.arrow_frames import decode_frame
from towpath.operators.marks import decode_marks

Result = tuple[str, int, int, int, int]
"""Key, begin and end of a window, its number of rows, and the sum of their numbers."""

StateDifferences = Callable[[int, dict[bytes, bytes]], Iterator[str]]
"""Of a task: what is wrong with its state, where it should have these entries, changelog keys and values."""


@dataclass
class Expected:
    """Outcome of one partition.

    Attributes:
        results: of the windows that have closed.
        late: number of a row, and end of the window that it missed.
        open: key and end of a window → number of rows, and the sum of their numbers.
        watermark: at the end.
    """

    results: Counter[Result] = field(default_factory=Counter)
    late: Counter[tuple[int, int]] = field(default_factory=Counter)
    open: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    watermark: int = 0


def compute(records: Iterable[tuple[int, bytes]], size_ms: int, slide_ms: int) -> Expected:
    """The batch computation over one partition's records (offset, value)."""
    expected, time = Expected(), EventTime()
    for _, value in records:
        marks = decode_marks(value)
        if marks is not None:
            for upstream, mark_ms in marks.marks.items():
                time.mark(UPSTREAMS[upstream], IDLE if mark_ms == IDLE_MARK else mark_ms)
            continue
        for key, at, number in decode_frame(value).select("key", "t", "number").iter_rows():
            begin = at // slide_ms * slide_ms
            for end in range(begin + slide_ms, begin + size_ms + 1, slide_ms):
                if end <= time.reached:
                    expected.late[number, end] += 1
                else:
                    rows, total = expected.open.get((key, end), (0, 0))
                    expected.open[key, end] = rows + 1, total + number
    for (key, end), (rows, total) in list(expected.open.items()):
        if end <= time.reached:
            expected.results[key, end - size_ms, end, rows, total] += 1
            del expected.open[key, end]
    expected.watermark = time.reached
    return expected


def differences(
    inputs: Sequence[Sequence[tuple[int, bytes]]],
    outputs: Sequence[Sequence[bytes]],
    late: Sequence[bytes],
    size_ms: int,
    slide_ms: int,
    state: StateDifferences,
) -> Iterator[str]:
    """What is wrong with what was committed.

    Args:
        inputs: records of each partition.
        outputs: results and watermarks of each partition.
        late: late rows of all.
        size_ms: of the windows.
        slide_ms: between their begins.
        state: see :data:`StateDifferences`.
    """
    missed: Counter[tuple[int, int]] = Counter()
    for partition, (records, values) in enumerate(zip(inputs, outputs, strict=True)):
        expected = compute(records, size_ms, slide_ms)
        missed += expected.late
        found, mark = _read(partition, values)
        yield from _compared(f"partition {partition}", expected.results, found)
        if mark != expected.watermark:
            yield f"partition {partition}: the last watermark is {mark}, not {expected.watermark} (R14)"
        entries = {
            changelog_key(0, msgspec.json.encode(window)): msgspec.json.encode([kept])
            for window, kept in expected.open.items()
        }
        yield from state(partition, entries)
    rows = map(msgspec.json.decode, late)
    yield from _compared("late rows", missed, Counter((row["number"], row["window_end"]) for row in rows))


def _read(partition: int, values: Sequence[bytes]) -> tuple[Counter[Result], int]:
    """Results of a task, and its last watermark; none at all where topics were made anew and nothing came since."""
    found: Counter[Result] = Counter()
    mark = NEVER
    for value in values:
        marks = decode_marks(value)
        if marks is None:
            found.update(decode_frame(value).select("key", "window_start", "window_end", "n", "total").rows())
        elif partition in marks.marks and marks.marks[partition] != IDLE_MARK:
            mark = marks.marks[partition]
    return found, mark


def _compared(of: str, wanted: Counter, found: Counter) -> Iterator[str]:
    for what, times in (wanted - found).items():
        yield f"{of}: missing {times}× {what} (I2)"
    for what, times in (found - wanted).items():
        yield f"{of}: not expected {times}× {what} (I2)"
