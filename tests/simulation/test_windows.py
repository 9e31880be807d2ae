"""The case of event time: its oracle and its watch can fail, and windows are right whatever becomes of their state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
import polars as pl
import pytest

from statemgr.control.records import Strategy
from statemgr.layout import changelog_key
from statemgr.testing.partition_log import Transaction
from statemgr.types import TaskId, TopicPartition
from statemgr.watermarks import IDLE as IDLE_MARK
from tests.simulation.application import OUTPUT, STAGE
from tests.simulation.invariants import LogWatch
from tests.simulation.kinds import Kind
from tests.simulation.mutations import CRASHES, MOVES, WINDOWS_LAZILY
from tests.simulation.rows import IDLE, Record, Row
from tests.simulation.run import run_seed
from tests.simulation.schedule import Flavour, plan, scheduled
from tests.simulation.window_oracle import compute, differences
from tests.simulation.windows import LATE, OnceAndInTime, Windows
from towpath.operators.arrow_frames import encode_frames
from towpath.operators.marks import Marks, decode_marks, encode_marks

CASE = Windows(10, 10)

LOAD = (
    Record("a", 105, (Row("k", False, 101), Row("k", False, 112))),
    Record("b", 110, (Row("k", False, 104),)),
    Record("b", IDLE, (Row("k", False, 99), Row("j", False, 111))),
    Record("a", 121, (Row("k", False, 113), Row("k", False, 140))),
)
"""The watermark is 105 before the third record, and 121 at the end: one row is late, two windows are over."""

RESULTS = [("k", 100, 110, 2, 0 + 10), ("j", 110, 120, 1, 21), ("k", 110, 120, 2, 1 + 30)]
LATE_ROW = {"key": "k", "t": 99, "number": 20, "window_start": 90, "window_end": 100}
STATE = {changelog_key(0, b'["k",150]'): b"[[1,31]]"}


def inputs() -> list[tuple[int, bytes]]:
    values = [value for number, record in enumerate(LOAD) for value in CASE.encode(number, record)]
    return list(enumerate(values))


def results(rows: Sequence[tuple[str, int, int, int, int]]) -> bytes:
    columns = {"key": pl.String, "window_start": pl.Int64, "window_end": pl.Int64, "n": pl.Int64, "total": pl.Int64}
    (value,) = encode_frames(pl.DataFrame(rows, schema=columns, orient="row"))
    return value


def mark(at_ms: int, task: int = 0) -> bytes:
    return encode_marks(Marks(2, {task: at_ms}))


def nothing_kept(_partition: int, wanted: dict[bytes, bytes]) -> Iterator[str]:
    yield from () if wanted == STATE else [f"state {wanted}"]


def complaints(outputs: Sequence[bytes], late: Sequence[dict[str, object]] = (LATE_ROW,)) -> list[str]:
    told = [msgspec.json.encode(row) for row in late]
    return list(differences([inputs()], [outputs], told, CASE.size_ms, CASE.slide_ms, nothing_kept))


def test_the_oracle_closes_windows_by_the_watermark_and_judges_rows_when_they_come() -> None:
    expected = compute(inputs(), CASE.size_ms, CASE.slide_ms)
    assert sorted(expected.results) == sorted(RESULTS)
    assert dict(expected.late) == {(20, 100): 1}
    assert expected.open == {("k", 150): (1, 31)}
    assert expected.watermark == 121


def test_a_row_is_in_every_window_that_hops_over_it() -> None:
    value = encode_frames(pl.DataFrame({"key": ["k"], "t": [25], "number": [1]}))
    assert compute(enumerate([*value, mark(IDLE_MARK), mark(200, 1)]), 30, 10).results.keys() == {
        ("k", 0, 30, 1, 1),
        ("k", 10, 40, 1, 1),
        ("k", 20, 50, 1, 1),
    }


def test_the_oracle_is_content_with_the_right_outputs() -> None:
    assert complaints([results(RESULTS[:1]), mark(110), mark(300, 1), results(RESULTS[1:]), mark(121)]) == []


@pytest.mark.parametrize(
    ("outputs", "late", "complaint"),
    [
        ([results(RESULTS[1:]), mark(121)], [LATE_ROW], "missing 1× ('k', 100, 110, 2, 10)"),
        ([results([*RESULTS, RESULTS[0]]), mark(121)], [LATE_ROW], "not expected 1× ('k', 100, 110, 2, 10)"),
        ([results([*RESULTS[:2], ("k", 110, 120, 1, 1)]), mark(121)], [LATE_ROW], "not expected 1× ('k', 110"),
        ([results(RESULTS), mark(120)], [LATE_ROW], "the last watermark is 120, not 121"),
        ([results(RESULTS), mark(121)], [], "late rows: missing 1× (20, 100)"),
        ([results(RESULTS), mark(121)], [LATE_ROW, LATE_ROW], "late rows: not expected 1× (20, 100)"),
    ],
    ids=["missing", "twice", "without a row", "watermark", "no late row", "late row twice"],
)
def test_the_oracle_complains(outputs: list[bytes], late: list[dict[str, object]], complaint: str) -> None:
    assert any(complaint in text for text in complaints(outputs, late))


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ([results(RESULTS), results(RESULTS[:1])], "a second ('result', 0, 'k', 110) (I2)"),
        ([mark(109), results(RESULTS[:1]), mark(110)], None),
        ([mark(110), results(RESULTS[:1])], "the window of k that ended at 110 behind the watermark 110 (R14)"),
        ([mark(110), mark(IDLE_MARK), mark(109)], "the watermark 109 after 110 (R14)"),
        ([mark(500, 1), results(RESULTS), mark(121)], None),
    ],
    ids=["twice", "in time", "too late", "back", "of another task"],
)
def test_outputs_are_looked_at_in_their_order(values: list[bytes], complaint: str | None) -> None:
    order = OnceAndInTime()
    found = [order.complaint(TopicPartition(OUTPUT, 0), value) for value in values]
    assert found[:-1] == [None] * (len(values) - 1)
    assert found[-1] is complaint if complaint is None else complaint in str(found[-1])


def test_a_late_row_is_written_once() -> None:
    order, value = OnceAndInTime(), msgspec.json.encode(LATE_ROW)
    assert order.complaint(TopicPartition(LATE, 1), value) is None
    assert "a second ('late row', 20, 100)" in str(order.complaint(TopicPartition(LATE, 0), value))


def test_a_fifth_of_all_seeds_has_windows_and_every_kind_of_them() -> None:
    cases = [scheduled(seed).case for seed in range(200)]
    windows = [case for case in cases if isinstance(case, Windows)]
    assert len(windows) == 40
    assert len(set(windows)) == 4


HARM = {**MOVES, **CRASHES, Kind.LOSE_STORES: 15}


@pytest.mark.slow
@pytest.mark.parametrize("strategy", Strategy)
def test_every_window_gives_its_result_once_however_its_state_travels(strategy: Strategy) -> None:
    for seed in range(8):
        run_seed(seed, schedule=plan(seed, Flavour(HARM, strategy, records=120, windows=True)))


@pytest.mark.slow
def test_windows_close_while_state_of_their_task_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[TaskId] = []
    committed: Callable[..., None] = LogWatch._outputs_committed

    def noted(self: LogWatch, transaction: Transaction, partition: TopicPartition) -> None:
        task = TaskId(STAGE, partition.partition)
        moving = self.of(task).done < max(self.of(task).owners, default=0)
        values = [entry.value for entry in self._written(transaction, partition)] if partition.topic == OUTPUT else []
        if moving and any(decode_marks(value) is None for value in values):
            closed.append(task)
        committed(self, transaction, partition)

    monkeypatch.setattr(LogWatch, "_outputs_committed", noted)
    for seed in range(5):
        run_seed(seed, schedule=plan(seed, WINDOWS_LAZILY))
    assert closed
