from __future__ import annotations

from dataclasses import replace

import pytest

from towpath.stage.policy import CommitLimits, TransactionFacts, should_commit

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
