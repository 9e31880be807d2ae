from __future__ import annotations

from dataclasses import replace

import pytest

from towpath.stage.policy import (
    CommitLimits,
    TransactionFacts,
    alert_batch_records,
    breath_s,
    first_batch_records,
    next_batch_records,
    should_commit,
)

LIMITS = CommitLimits(interval_s=0.1, dirty_entries=100, output_bytes=1000)
BACKLOG = TransactionFacts(
    open=True, open_s=0.0, dirty_entries=0, output_bytes=0, backlog=True, outputs_wait=True, stopping=False
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
        pytest.param(replace(BACKLOG, dirty_entries=100), True, id="state-limit"),
        pytest.param(replace(BACKLOG, dirty_entries=99), False, id="below-state-limit"),
        pytest.param(replace(BACKLOG, output_bytes=1000), True, id="output-limit"),
        pytest.param(replace(BACKLOG, output_bytes=999), False, id="below-output-limit"),
        pytest.param(replace(BACKLOG, stopping=True), True, id="stopping"),
        pytest.param(AT_LEAST_ONCE, False, id="at-least-once-waits-for-the-interval"),
        pytest.param(replace(AT_LEAST_ONCE, open_s=0.1), True, id="at-least-once-interval"),
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
    ("since_batch_s", "backlog", "expected"),
    [
        pytest.param(0.005, False, 0.015, id="records-gather"),
        pytest.param(0.005, True, 0.0, id="backlog-does-not-wait"),
        pytest.param(3.0, False, 0.0, id="after-a-silence"),
        pytest.param(float("inf"), False, 0.0, id="the-first-batch"),
    ],
)
def test_batches_are_apart_under_light_load_only(since_batch_s: float, backlog: bool, expected: float) -> None:
    assert breath_s(since_batch_s, 0.02, backlog) == pytest.approx(expected)


def test_a_batch_is_short_while_a_release_may_be_asked_for():
    assert alert_batch_records(256, 4, 0.0) == 4
    assert alert_batch_records(256, 4, 0.0001) == 100
    assert alert_batch_records(256, 4, 0.00001) == 256
    assert alert_batch_records(256, 4, 1.0) == 4
    assert alert_batch_records(2, 4, 1.0) == 2
