from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.stage.policy import (
    GATHERED_S,
    OLD_BATCH_BYTES,
    OLD_S,
    CommitLimits,
    Pace,
    TransactionFacts,
    alert_batch_records,
    batch_interval_s,
    breath_s,
    first_batch_records,
    gathers,
    most_batch_records,
    next_batch_records,
    should_commit,
    smoothed_s,
)

LIMITS = CommitLimits(interval_s=0.1, dirty_entries=100, output_bytes=1000)
BACKLOG = TransactionFacts(
    open=True,
    open_s=0.0,
    dirty_entries=0,
    output_bytes=0,
    backlog=True,
    waited_s=0.0,
    outputs_wait=True,
    stopping=False,
)
AT_LEAST_ONCE = replace(BACKLOG, backlog=False, outputs_wait=False)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param(replace(BACKLOG, open=False, stopping=True, open_s=9.0), False, id="nothing-open"),
        pytest.param(BACKLOG, False, id="backlog-goes-on"),
        pytest.param(replace(BACKLOG, backlog=False), True, id="light-load-commits-at-once"),
        pytest.param(replace(BACKLOG, open_s=0.1), True, id="interval-reached"),
        pytest.param(replace(BACKLOG, open_s=0.099), False, id="interval-not-reached"),
        pytest.param(replace(BACKLOG, open_s=0.4, waited_s=5.0), False, id="old-records-may-wait-a-tenth-longer"),
        pytest.param(replace(BACKLOG, open_s=0.5, waited_s=5.0), True, id="a-tenth-longer-and-no-more"),
        pytest.param(replace(BACKLOG, open_s=1.0, waited_s=1e9), True, id="never-longer-than-a-second"),
        pytest.param(replace(BACKLOG, open_s=0.1, waited_s=0.5), True, id="young-records-have-the-interval"),
        pytest.param(replace(BACKLOG, backlog=False, waited_s=5.0), True, id="old-records-without-backlog-at-once"),
        pytest.param(replace(BACKLOG, dirty_entries=100), True, id="state-limit"),
        pytest.param(replace(BACKLOG, dirty_entries=99), False, id="below-state-limit"),
        pytest.param(replace(BACKLOG, output_bytes=1000), True, id="output-limit"),
        pytest.param(replace(BACKLOG, output_bytes=999), False, id="below-output-limit"),
        pytest.param(replace(BACKLOG, stopping=True), True, id="stopping"),
        pytest.param(replace(BACKLOG, backlog=False, fruitless=True), False, id="rows-that-wait-need-no-commit"),
        pytest.param(
            replace(BACKLOG, backlog=False, fruitless=True, open_s=0.1), True, id="what-waits-is-written-down"
        ),
        pytest.param(AT_LEAST_ONCE, False, id="at-least-once-waits-for-the-interval"),
        pytest.param(replace(AT_LEAST_ONCE, open_s=0.1), True, id="at-least-once-interval"),
        pytest.param(replace(AT_LEAST_ONCE, open_s=0.1, waited_s=5.0), True, id="at-least-once-without-backlog"),
    ],
)
def test_when_a_transaction_ends(facts: TransactionFacts, expected: bool) -> None:
    assert should_commit(facts, LIMITS) is expected


@pytest.mark.parametrize(
    ("records", "taken", "took_s", "expected"),
    [
        pytest.param(100, 100, 0.1, 200, id="quick-and-full-doubles"),
        pytest.param(600, 600, 0.1, 1000, id="never-more-than-most"),
        pytest.param(100, 10, 0.1, 100, id="quick-but-not-full-says-nothing"),
        pytest.param(100, 100, 0.8, 100, id="long-enough-stays"),
        pytest.param(100, 100, 4.0, 25, id="slow-shrinks-to-a-second"),
        pytest.param(100, 2, 12.0, 1, id="never-less-than-one"),
    ],
)
def test_how_much_is_taken_at_once(records: int, taken: int, took_s: float, expected: int) -> None:
    assert next_batch_records(records, 1000, taken, took_s) == expected


@pytest.mark.parametrize(("most", "expected"), [(20_000, 312), (256, 4), (1, 1)])
def test_the_first_batch_is_small(most: int, expected: int) -> None:
    assert first_batch_records(most) == expected


@pytest.mark.parametrize(
    ("since_batch_s", "since_end_s", "busy_s", "more", "expected"),
    [
        pytest.param(0.005, 0.0, 0.005, False, 0.015, id="records-gather"),
        pytest.param(0.005, 0.0, 0.005, True, 0.0, id="what-waits-is-taken"),
        pytest.param(3.0, 2.99, 0.01, False, 0.0, id="after-a-silence"),
        pytest.param(float("inf"), float("inf"), 0.0, False, 0.0, id="the-first-batch"),
        pytest.param(0.012, 0.0, 0.012, False, 0.008, id="a-quick-broker"),
        pytest.param(0.04, 0.0, 0.04, False, 0.02, id="a-busy-broker-gets-a-third-of-the-time"),
        pytest.param(0.05, 0.01, 0.04, False, 0.01, id="that-rest-is-over-some-time"),
        pytest.param(0.15, 0.0, 0.15, False, 0.075, id="the-busier-the-longer"),
        pytest.param(3.0, 0.0, 3.0, False, 0.1, id="at-most-a-tenth-of-a-second"),
        pytest.param(3.0, 0.0, 3.0, True, 0.0, id="a-busy-broker-and-a-backlog"),
    ],
)
def test_batches_are_apart_under_light_load_only(
    since_batch_s: float, since_end_s: float, busy_s: float, more: bool, expected: float
) -> None:
    assert breath_s(since_batch_s, since_end_s, 0.02, busy_s, more) == pytest.approx(expected)


def test_a_duration_of_late_follows_slowly():
    assert smoothed_s(0.0, 0.02) == 0.02
    assert smoothed_s(0.02, 0.06) == pytest.approx(0.03)


def pace(*batches: tuple[int, float]) -> Pace:
    found = Pace()
    for taken, took_s in batches:
        found = found.after(taken, took_s)
    return found


def test_a_batch_is_short_while_a_release_may_be_asked_for():
    tenth = pace((10, 0.001), (100, 0.01))  # 0.1 ms a record
    assert alert_batch_records(20_000, 312, Pace()) == 312
    assert alert_batch_records(256, 4, tenth) == 100
    assert alert_batch_records(80, 4, tenth) == 80
    assert alert_batch_records(256, 4, pace((4, 4.0), (8, 8.0))) == 4
    assert alert_batch_records(2, 4, pace((4, 4.0), (8, 8.0))) == 2


def test_what_every_batch_costs_is_not_taken_for_the_cost_of_its_records():
    """Four records that take 30 ms, nearly all of it look-ups that 40 would share, must not keep batches at four."""
    look_ups = pace((4, 0.030), (8, 0.031))
    assert look_ups.record_s == pytest.approx(0.00025)
    assert alert_batch_records(256, 4, look_ups) == 40


def test_nothing_but_a_slope_is_taken_for_cheap_records():
    """Batches of one size may be slow because of their records: they are not followed by a large one."""
    same = pace(*[(4, 0.128)] * 50)
    assert same.record_s is None
    assert alert_batch_records(256, 4, same) == 8


@given(st.lists(st.integers(1, 256), min_size=1, max_size=60), st.floats(0.004, 0.1))
def test_slow_operators_never_get_much_more_than_the_least_while_alert(sizes: list[int], record_s: float) -> None:
    assert alert_batch_records(256, 4, pace(*[(size, size * record_s) for size in sizes])) <= 8


@given(st.lists(st.tuples(st.integers(1, 20_000), st.floats(0.0, 5.0)), min_size=1, max_size=60))
def test_a_record_costs_between_nothing_and_its_share(batches: list[tuple[int, float]]) -> None:
    found = pace(*batches)
    assert found.record_s is None or 0.0 <= found.record_s <= found.seconds / found.records


@pytest.mark.parametrize(
    ("interval_s", "outputs_wait", "expected"), [(0.02, True, 0.02), (0.02, False, 0.005), (0.001, False, 0.001)]
)
def test_outputs_that_wait_for_no_commit_need_no_long_distance_between_batches(
    interval_s: float, outputs_wait: bool, expected: float
) -> None:
    assert batch_interval_s(interval_s, outputs_wait=outputs_wait) == expected


@pytest.mark.parametrize(
    ("record_bytes", "waited_s", "expected"),
    [
        pytest.param(100, OLD_S - 1, 20_000, id="fresh-records-as-ever"),
        pytest.param(100, OLD_S, 80_000, id="small-old-ones-up-to-four-times"),
        pytest.param(200, OLD_S, OLD_BATCH_BYTES // 200, id="old-ones-by-their-bytes"),
        pytest.param(10_000, OLD_S, 20_000, id="large-old-ones-no-fewer-than-fresh-ones"),
        pytest.param(0, OLD_S, 80_000, id="empty-values"),
    ],
)
def test_batches_of_old_records_are_larger(record_bytes: float, waited_s: float, expected: int) -> None:
    assert most_batch_records(20_000, record_bytes, waited_s) == expected


def test_a_batch_shrinks_at_once_when_records_are_fresh_again() -> None:
    assert next_batch_records(80_000, 20_000, taken=100, took_s=0.1) == 20_000


@pytest.mark.parametrize(
    ("backlog", "waited_s", "expected"), [(True, 0.0, False), (True, GATHERED_S, True), (False, 60.0, False)]
)
def test_rows_wait_to_be_merged_in_a_catch_up_only(backlog: bool, waited_s: float, expected: bool) -> None:
    assert gathers(backlog=backlog, waited_s=waited_s) is expected
