"""Deadlines of a restore."""

from __future__ import annotations

from statemgr.changelog.patience import Patience, Verdict


def test_half_way_to_the_stall_the_reader_is_replaced_once():
    patience = Patience(0, stall_timeout_s=60, limit_s=10**6)
    verdicts = [patience.verdict(now) for now in (0, 29.9, 30, 31, 59.9, 60)]
    assert verdicts == [
        Verdict.GO_ON,
        Verdict.GO_ON,
        Verdict.READ_ANEW,
        Verdict.GO_ON,
        Verdict.GO_ON,
        Verdict.STALLED,
    ]


def test_progress_starts_the_time_anew():
    patience = Patience(0, stall_timeout_s=60, limit_s=10**6)
    assert patience.verdict(40) is Verdict.READ_ANEW
    patience.moved(50)
    assert patience.still_for(70) == 20
    assert patience.verdict(70) is Verdict.GO_ON
    assert patience.verdict(80) is Verdict.READ_ANEW


def test_progress_does_not_extend_the_time_that_tombstones_give():
    patience = Patience(0, stall_timeout_s=60, limit_s=100)
    patience.moved(99)
    assert patience.verdict(100) is Verdict.GO_ON
    assert patience.verdict(100.1) is Verdict.TOO_SLOW
