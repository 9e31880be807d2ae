"""Pacing with a clock that only moves when someone waits or works."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

import nexmark
from loadgen.pacing import PIECE_MS, PIECE_ROWS, PaceSettings, Piece, pace, piece_bounds


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def wall_ms(self) -> float:
        return self.now

    def sleep_ms(self, millis: float) -> None:
        assert millis > 0
        self.waits.append(millis)
        self.now += millis


def rows(values: list[float]) -> pa.RecordBatch:
    return pa.record_batch({"due": pa.array(values, pa.float64())})


def pieces(due: list[float], size: int, clock: Clock | None = None, cost_ms: float = 0.0) -> Iterator[Piece]:
    for start in range(0, len(due), size):
        if clock is not None:
            clock.now += cost_ms
        part = due[start : start + size]
        yield Piece(np.array(part), rows(part))


def run(
    due: list[float], clock: Clock, size: int = 7, cost_ms: float = 0.0, tick_ms: float = 2.0
) -> list[tuple[float, list[float]]]:
    settings = PaceSettings(tick_ms=tick_ms, horizon_ms=100)
    made = pace(pieces(due, size, clock, cost_ms), clock.wall_ms, clock.sleep_ms, settings)
    return [(clock.now, batch.column(0).to_pylist()) for batch in made]


def test_rows_leave_when_due_in_slices_of_a_tick() -> None:
    due = [i * 0.5 for i in range(40)]
    slices = [(at, values) for at, values in run(due, Clock()) if values]
    assert [value for _, values in slices for value in values] == due
    assert all(value <= at <= value + 2.0 for at, values in slices for value in values)


@given(
    gaps=st.lists(st.floats(0, 40), min_size=1, max_size=60),
    size=st.integers(1, 9),
    cost_ms=st.floats(0, 30),
    tick_ms=st.floats(0.5, 20),
)
def test_every_row_leaves_once_in_order_and_never_early(
    gaps: list[float], size: int, cost_ms: float, tick_ms: float
) -> None:
    due = [float(x) for x in np.cumsum(gaps)]
    slices = run(due, Clock(), size, cost_ms, tick_ms)
    assert [value for _, values in slices for value in values] == due
    assert all(value <= at for at, values in slices for value in values)


def test_a_reader_that_is_behind_hands_out_what_is_due_at_once() -> None:
    clock = Clock()
    clock.now = 1000.0
    slices = [values for _, values in run([float(i) for i in range(21)], clock, size=21) if values]
    assert slices == [[float(i) for i in range(21)]]
    assert clock.waits == []


def test_rows_are_prepared_ahead_while_nothing_is_due() -> None:
    """With pieces prepared in the gaps, their cost delays a row by at most one piece."""
    due = [i * 1.0 for i in range(400)]
    slices = run(due, Clock(), size=50, cost_ms=3.0)
    late = [at - value for at, values in slices for value in values if value >= 100]
    assert max(late) <= 2.0 + 3.0


def test_the_last_rows_before_a_long_wait_are_pushed_out_by_an_empty_slice() -> None:
    slices = run([0.0, 500.0], Clock(), size=1)
    assert [values for _, values in slices] == [[0.0], [], [500.0]]
    assert slices[1][0] < 500


def test_a_stopped_clock_is_waited_for_and_not_skipped() -> None:
    clock = Clock()
    run([0.0, 300.0], clock, size=2)
    assert sum(clock.waits) == 300.0


@given(start=st.integers(0, 50_000), count=st.integers(0, 1500), rate=st.integers(1, 2_000_000))
@example(start=5, count=30_000, rate=2_000_000)
def test_pieces_cover_a_range_without_gaps_within_their_limits(start: int, count: int, rate: int) -> None:
    profile = nexmark.Profile.constant(rate)

    def offset(k: int) -> int:
        return int(profile.offsets_ms(np.array([k]))[0])

    bounds = list(piece_bounds(start, start + count, offset, profile.count_until))
    assert [at for at, _ in bounds] == [start, *(end for _, end in bounds[:-1])][: len(bounds)]
    assert not bounds or bounds[-1][1] == start + count
    for at, end in bounds:
        assert at < end <= at + PIECE_ROWS
        assert end == at + 1 or offset(end - 1) < offset(at) + PIECE_MS
