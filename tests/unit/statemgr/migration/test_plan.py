"""Which bins come when, and what is asked of whom (R9)."""

from __future__ import annotations

import pytest

from statemgr.migration.plan import BinPlan, Run, after_chunk
from statemgr.migration.ports import Chunk

BOTTOM = 3


def chunk(*, complete, following=None):
    return Chunk(1, 10, (), following, complete)


def every(bin_):
    return True


def none(bin_):
    return False


def drained(plan, whole=every):
    runs = []
    while found := plan.next(whole):
        runs += found
    return runs


@pytest.mark.parametrize(
    ("run", "answer", "rest"),
    [
        (Run(5, 5, 0), chunk(complete=True), []),
        (Run(5, 5, 0), chunk(complete=False), [Run(5, 5, 1)]),
        (Run(5, 5, BOTTOM), chunk(complete=True), []),
        (Run(5, 5, 0), chunk(complete=False, following=b"c"), [Run(5, 5, 0, b"c", False)]),
        (Run(5, 5, 0, b"c", False), chunk(complete=False), [Run(5, 5, 1)]),
        (Run(5, 5, 0, b"c", True), chunk(complete=True), []),
        (Run(4, 5, 0), chunk(complete=True), []),
        (Run(4, 5, 0), chunk(complete=False), [Run(4, 4, 0), Run(5, 5, 0)]),
        (Run(4, 5, 1, b"c", False), chunk(complete=False), [Run(4, 4, 1), Run(5, 5, 1)]),
        (Run(5, 5, 0, b"c", False), chunk(complete=True), [Run(5, 5, 0)]),
        (Run(5, 5, 0, b"c", False), chunk(complete=True, following=b"d"), [Run(5, 5, 0)]),
    ],
)
def test_what_follows_a_chunk(run, answer, rest):
    """The last two: a copy that became complete in between has dropped tombstones that a deeper layer needs."""
    assert after_chunk(run, answer, BOTTOM) == rest


def test_units_come_in_index_order_and_cover_all_bins():
    assert drained(BinPlan(every, 4)) == [Run(0, 63, 0), Run(64, 127, 0), Run(128, 191, 0), Run(192, 255, 0)]
    assert [run.first for run in drained(BinPlan(every, 256))] == list(range(256))


def test_bins_for_which_deeper_layers_may_be_needed_are_asked_one_by_one():
    assert BinPlan(every, 64).next(lambda bin_: bin_ != 2) == [Run(bin_, bin_, 0) for bin_ in range(4)]


def test_bins_that_are_there_are_left_out():
    here = {0, 1, 2, 3, 5}
    plan = BinPlan(lambda bin_: bin_ not in here, 64)
    assert plan.next(every) == [Run(4, 4, 0), Run(6, 6, 0), Run(7, 7, 0)]
    assert plan.next(every) == [Run(8, 11, 0)]


def test_wanted_bins_come_before_hastened_ones_and_even_alone():
    plan = BinPlan(every, 64)
    plan.hasten([9, 100])
    plan.want([201, 9])
    assert plan.wanted
    assert [run.first for run in (*plan.next(every, wanted_only=True), *plan.next(every, wanted_only=True))] == [200, 8]
    assert not plan.wanted
    assert plan.next(every, wanted_only=True) == []
    assert [run.first for run in drained(plan)][:3] == [100, 0, 4]


def test_hastened_bins_jump_the_queue_in_their_order_and_once():
    plan = BinPlan(every, 64)
    plan.next(every)
    plan.hasten([200, 9, 201, 1])
    plan.hasten([9, 100])
    assert [run.first for run in drained(plan)][:5] == [200, 8, 100, 4, 12]
