"""The harness of the kill tests can fail: each comparison notices each kind of damage, and a seed repeats."""

from __future__ import annotations

import pytest

from tests.harness.reference import (
    Bid,
    DifferenceError,
    compare_each_count,
    compare_mapped,
    compare_repeated_counts,
    compare_state,
    final_counts,
)
from tests.harness.strikes import History, schedule

BIDS = [
    Bid("bid", auction=7, bidder=1, price=100, date_time=1, sched_ms=10),
    Bid("bid", auction=8, bidder=2, price=20_000, date_time=2, sched_ms=11),
    Bid("bid", auction=7, bidder=3, price=3_000_000, date_time=3, sched_ms=12),
]
COUNTS = [
    {"__partition": 0, "auction": 7, "count": 1, "sched_ms": 10},
    {"__partition": 1, "auction": 8, "count": 1, "sched_ms": 11},
    {"__partition": 0, "auction": 7, "count": 2, "sched_ms": 12},
]
MAPPED = [
    {
        "__partition": index,
        **{field: getattr(bid, field) for field in ("auction", "bidder", "price", "date_time", "sched_ms")},
        "price_milli": bid.price * 908,
        "price_band": index,
    }
    for index, bid in enumerate(BIDS)
]


def test_equal_results_pass():
    compare_each_count(COUNTS, BIDS)
    compare_repeated_counts([*COUNTS, COUNTS[0]], BIDS)
    compare_mapped(MAPPED[::-1], BIDS)
    compare_state({"7": 2, "8": 1}, final_counts(BIDS))


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (COUNTS[:2], r"1 of 3 missing, 0 too many.\n  missing: \(7, 2\)"),
        ([*COUNTS, COUNTS[1]], r"0 of 3 missing, 1 too many.\n  missing: none\n  too many: \(8, 1\)"),
        ([{**COUNTS[0], "count": 3}, *COUNTS[1:]], r"missing: \(7, 1\)\n  too many: \(7, 3\)"),
        ([{**COUNTS[0], "sched_ms": 99}, *COUNTS[1:]], r"emit time: 1 of 3 missing"),
        (COUNTS[::-1], r"auction 7: count 2 follows 0"),
    ],
    ids=["dropped", "doubled", "changed", "other origin", "out of order"],
)
def test_a_damaged_count_is_noticed(damaged, message):
    with pytest.raises(DifferenceError, match=message):
        compare_each_count(damaged, BIDS)


@pytest.mark.parametrize(
    "damaged",
    [COUNTS[:2], [*COUNTS, {**COUNTS[0], "count": 3}], [*COUNTS, {**COUNTS[0], "sched_ms": 99}]],
    ids=["lost", "counted too far", "unknown origin"],
)
def test_at_least_once_still_means_nothing_lost_and_nothing_invented(damaged):
    with pytest.raises(DifferenceError):
        compare_repeated_counts(damaged, BIDS)


@pytest.mark.parametrize(
    "damaged", [MAPPED[1:], [*MAPPED, MAPPED[0]], [{**MAPPED[0], "price_band": 2}, *MAPPED[1:]]],
    ids=["dropped", "doubled", "changed"],
)  # fmt: skip
def test_a_damaged_map_is_noticed(damaged):
    with pytest.raises(DifferenceError):
        compare_mapped(damaged, BIDS)


@pytest.mark.parametrize("state", [{"7": 2}, {"7": 2, "8": 2}, {"7": 2, "8": 1, "9": 1}], ids=["lost", "wrong", "more"])
def test_a_damaged_state_is_noticed(state):
    with pytest.raises(DifferenceError):
        compare_state(state, final_counts(BIDS))


def test_a_seed_repeats_its_schedule_and_another_seed_does_not():
    replicas = ["source-0", "count-0", "count-1"]
    assert schedule(5, replicas, 40) == schedule(5, replicas, 40)
    assert schedule(5, replicas, 40) != schedule(6, replicas, 40)


def test_a_schedule_has_every_kind_of_kill():
    strikes = schedule(5, ["source-0", "count-0", "count-1"], 60)
    assert sum(len(strike.victims) for strike in strikes) == 60
    assert {len(strike.victims) for strike in strikes} == {1, 2}
    assert {strike.settled for strike in strikes} == {True, False}
    assert {wiped for strike in strikes for wiped in strike.victims.values()} == {True, False}
    assert all(0.1 <= strike.gap_s <= 2.0 for strike in strikes)


def test_a_failure_says_how_to_run_it_again():
    history = History(5)
    history.add("kill -9 count-0 while running, state kept")
    note = history.note("tests/broker/test_kill.py::test_counts[5]")
    assert "SEED=5 .venv/bin/pytest 'tests/broker/test_kill.py::test_counts[5]'" in note
    assert "kill -9 count-0 while running, state kept" in note
