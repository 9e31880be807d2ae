"""Rows that wait at the gate: the output is that of a run in which none had to (I2)."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemgr.progress import InputProgress
from tests.unit.towpath.stage.moving import BAD, DROPPED, REFUSED, Mover, Record, messages, moving_stage
from tests.unit.towpath.stage.plans import SOURCE, pass_stage
from towpath.errors import StageStoppedError
from towpath.operators.count import KeyedCount
from towpath.operators.rows import MapBatches, WithColumns
from towpath.query.plan import PARTITION, Format, OperatorContext, OperatorPlan, StagePlan
from towpath.stage.chain import gate_of
from towpath.stage.overflow import Overflow
from towpath.stage.tasks import OwnedTask


def numbered(*auctions: int | None) -> list[Record]:
    """One row a record, numbered."""
    return [[(auction, number)] for number, auction in enumerate(auctions)]


def expected_counts(records: Sequence[Record], skip: set[int]) -> dict[int, list[int]]:
    total = Counter(auction for record in records for auction, _ in record or () if auction is not None)
    return {auction: list(range(1, count + 1)) for auction, count in total.items() if auction not in skip}


def expected_letters(records: Sequence[Record], bad: set[int | None], partition: int) -> dict[str, int]:
    damaged = {f"{partition}@{offset}": 1 for offset, record in enumerate(records) if record is None}
    rows = [row for record in records for row in record or ()]
    return damaged | {f"{partition}#{number}": 1 for auction, number in rows if auction in bad}


# --- one owner -------------------------------------------------------------------------------------------------------


def test_a_row_waits_for_its_key_and_the_others_go_on() -> None:
    mover = Mover(moving_stage())
    mover.processor.process(messages(Format.JSON, numbered(1, 2, 1)))
    assert len(mover.way.requested) == 2
    mover.way.bring(1)
    assert mover.processor.resume(0.0)
    assert not mover.processor.resume(0.0)
    mover.commit()
    assert mover.counts() == {1: [1, 2]}
    progress = mover.progress()
    assert progress is not None
    ((key, first),) = progress.inputs[SOURCE].parked.items()
    assert (key.encode("latin-1")[3:], first) == (b"2", (1, 0))
    assert (progress.inputs[SOURCE].low, progress.inputs[SOURCE].high) == (1, 3)


def test_rows_of_a_task_that_does_not_move_pass_in_the_same_batch() -> None:
    mover = Mover(moving_stage())
    mover.processor.process(
        [*messages(Format.JSON, numbered(1, 1)), *messages(Format.JSON, numbered(7, 8, 7), partition=1)]
    )
    mover.commit()
    assert (mover.counts(0), mover.counts(1)) == ({}, {7: [1, 2], 8: [1]})


def test_once_all_state_is_here_every_row_goes_on_and_nothing_is_looked_at_any_more() -> None:
    mover = Mover(moving_stage())
    mover.processor.process(messages(Format.JSON, numbered(1, 2, 1)))
    mover.way.bring_all()
    mover.processor.resume(0.0)
    mover.processor.resume(0.0)
    mover.commit()
    assert mover.counts() == {1: [1, 2], 2: [1]}
    assert (mover.task.migration, mover.task.parking) == (None, None)
    assert mover.task.progress().inputs[SOURCE] == InputProgress(3, 3)


def test_what_a_task_without_state_elsewhere_has_parked_does_not_wait() -> None:
    """A former owner's parked rows, and all state at hand: they go on as they are read."""
    mover = Mover(moving_stage())
    log = messages(Format.JSON, numbered(1, 2, 1, 2))
    mover.processor.process(log)
    mover.commit()
    mover.move()
    mover.way.bring_all()
    mover.task.settle()
    mover.processor.process(log)
    mover.processor.resume(0.0)
    mover.commit()
    assert mover.counts() == {1: [1, 2], 2: [1, 2]}
    assert mover.task.parking is None


def test_the_group_is_shown_the_lowest_row_that_waits() -> None:
    mover = Mover(moving_stage())
    mover.processor.process(messages(Format.JSON, numbered(1, 2, 1)))
    assert [list(offsets.values()) for offsets in (mover.task.reads_from(), mover.task.offsets())] == [[3], [0]]


def test_records_without_room_wait_and_are_processed_in_their_order() -> None:
    mover = Mover(moving_stage(), most_rows=2)
    log = messages(Format.JSON, [*numbered(1, 2, 1, BAD), None, *numbered(1, 2)])
    mover.processor.process(log[:5])
    mover.processor.process(log[5:])
    assert mover.task.full
    assert mover.task.positions == {SOURCE: 2}
    mover.task.skip(SOURCE, 7)
    mover.commit()
    assert mover.task.positions == {SOURCE: 2}
    assert mover.letters() == {}
    mover.finish([])
    assert mover.task.positions == {SOURCE: 7}
    assert mover.counts() == {1: [1, 2, 3], 2: [1, 2]}
    assert mover.letters() == {"0#3": 1, "0@4": 1}


def test_rows_that_memory_has_no_room_for_stay_in_the_log_until_their_state_is_here() -> None:
    mover = Mover(moving_stage(), most_held=1)
    mover.processor.process(messages(Format.JSON, numbered(1, 2, 1)))
    assert mover.task.full
    assert mover.task.positions == {SOURCE: 0}
    mover.finish([])
    assert mover.counts() == {1: [1, 2], 2: [1]}


def test_a_record_that_is_larger_than_all_room_goes_on_when_all_state_has_come_by_itself() -> None:
    mover = Mover(moving_stage(Format.ARROW), most_rows=1)
    mover.processor.process(messages(Format.ARROW, [[(1, 0), (2, 1)], [(1, 2)]]))
    mover.way.bring_all()
    mover.processor.resume(0.0)
    mover.processor.resume(0.0)
    mover.commit()
    assert mover.counts() == {1: [1, 2], 2: [1]}


def test_an_owner_that_leaves_forgets_what_it_had_read_and_not_processed() -> None:
    mover = Mover(moving_stage(), most_rows=1)
    log = messages(Format.JSON, numbered(1, 2, 1))
    mover.processor.process(log)
    mover.commit()
    mover.processor.own({1: mover.tasks[1]}, mover._topics)
    assert not mover.processor.resume(0.0)
    mover.move()
    mover.finish(log)
    assert mover.counts() == {1: [1, 2], 2: [1]}


# --- any number of owners --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("form", [Format.JSON, Format.ARROW])
@pytest.mark.parametrize("kind", ["count", "process"])
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_output_and_dead_letters_are_those_of_a_run_without_waiting(form: Format, kind: str, seed: int) -> None:
    dice = random.Random(seed)
    records = [random_records(dice, form) for _ in range(2)]
    mover = Mover(moving_stage(form, kind), most_rows=dice.randrange(1, 20))
    log = [message for partition in (0, 1) for message in messages(form, records[partition], partition)]
    for _ in range(dice.randrange(30)):
        match dice.randrange(6):
            case 0 | 1:
                mover.read(log, dice.randrange(1, 8))
            case 2:
                if mover.task.migration is not None:
                    mover.way.bring(dice.randrange(1, 4))
            case 3:
                mover.processor.resume(0.0)
            case 4:
                mover.commit()
            case 5:
                mover.move()
    mover.finish(log)
    skip = {BAD, DROPPED} | ({REFUSED} if kind == "process" else set())
    bad = {None, BAD} | ({REFUSED} if kind == "process" else set())
    assert [mover.counts(partition) for partition in (0, 1)] == [expected_counts(each, skip) for each in records]
    assert mover.letters() == expected_letters(records[0], bad, 0) | expected_letters(records[1], bad, 1)


def random_records(dice: random.Random, form: Format) -> list[Record]:
    """Records with numbered rows, half of the time without rows that can't be processed."""
    auctions = [*range(20, 25), None, BAD, DROPPED, REFUSED]
    if dice.random() < 0.5:
        auctions = auctions[:5]
    numbers = iter(range(10_000))
    records: list[Record] = []
    for _ in range(dice.randrange(3, 25)):
        size = dice.randrange(1, 5) if form is Format.ARROW else 1
        damaged = dice.random() < 0.05
        records.append(None if damaged else [(dice.choice(auctions), next(numbers)) for _ in range(size)])
    return records


# --- what can wait, and what can't -----------------------------------------------------------------------------------


class Foreign:
    """An operator of which nothing is known."""

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        return frame


def keyed() -> KeyedCount:
    return KeyedCount(["auction"], "count", "count")


def staged(*makes: Any) -> StagePlan:
    plan = moving_stage()
    return replace(plan, operators=tuple(OperatorPlan(str(index), make) for index, make in enumerate(makes)))


def test_a_chain_with_one_keyed_operator_among_stateless_ones_has_a_gate() -> None:
    assert gate_of([item.make() for item in moving_stage().operators]) == 3
    assert not Mover(moving_stage()).processor.opaque


@pytest.mark.parametrize(
    "makes", [[Foreign], [Foreign, keyed], [keyed, Foreign], [keyed, keyed]], ids=["foreign", "before", "behind", "two"]
)
def test_other_chains_have_none_and_refuse_tasks_whose_state_is_elsewhere(makes: list[Any]) -> None:
    assert gate_of([make() for make in makes]) is None
    with pytest.raises(StageStoppedError, match="count/0 wait for their state, and the operators of stage count can't"):
        Mover(staged(*makes))


def test_a_stage_without_state_is_not_opaque() -> None:
    mover = Mover(moving_stage())
    mover.processor._plan = pass_stage()
    assert not mover.processor.opaque


def test_user_code_sees_the_same_columns_whether_rows_wait_or_not() -> None:
    seen: list[list[str]] = []

    def function(rows: pl.DataFrame) -> pl.DataFrame:
        seen.append(rows.columns)
        return rows

    mover = Mover(staged(lambda: MapBatches(function), keyed, lambda: WithColumns([pl.lit(0).alias("tens")])))
    mover.processor.process(messages(Format.JSON, numbered(1), partition=1))
    mover.processor.process(messages(Format.JSON, numbered(1)))
    assert seen[0] == seen[1] == ["auction", "n", PARTITION]


# --- what it costs those who don't wait ------------------------------------------------------------------------------


@contextmanager
def called(*modules: str) -> Iterator[set[str]]:
    """Names of the functions of these modules that are called meanwhile."""
    names: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and Path(frame.f_code.co_filename).stem in modules:
            names.add(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        yield names
    finally:
        sys.setprofile(None)


def test_a_batch_of_tasks_that_don_t_wait_meets_no_parking_code() -> None:
    mover = Mover(moving_stage())
    mover.way.bring_all()
    mover.processor.resume(0.0)
    batch = messages(Format.JSON, numbered(1, 2, 1))
    modules = ("gate", "parking", "past", "shelf", "overflow")
    with called(*modules) as names:
        mover.processor.process(batch)
        mover.processor.resume(0.0)
        mover.commit()
    assert names <= {"watched", "__bool__"}
    waiting = Mover(moving_stage())
    with called(*modules) as names:
        waiting.processor.process(batch)
    assert {"admit", "put", "enter"} <= names


def test_records_that_found_no_room_are_forgotten_with_their_task() -> None:
    first, second = (OwnedTask(Mover(moving_stage()).task.id, epoch, {SOURCE: 0}) for epoch in (1, 2))
    overflow = Overflow()
    overflow.own({0: first})
    log = messages(Format.JSON, numbered(1, 2))
    (source,) = first.reads_from()
    overflow.keep(log, {source: 1})
    overflow.own({0: first})
    assert overflow
    overflow.own({0: second})
    assert not overflow
