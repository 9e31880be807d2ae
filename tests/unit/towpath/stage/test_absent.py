"""Timers of state that is elsewhere: what they hold, and what is fetched for them."""

from __future__ import annotations

import polars as pl

from statemgr.watermarks import NEVER
from towpath.stage.absent import AbsentTimers
from towpath.stage.shelf import Earliest

ALL = frozenset(range(256))


def test_the_earliest_of_the_bins_that_are_not_here_holds():
    timers = AbsentTimers({3: 50, 7: 20, 9: 70})
    assert timers.earliest(ALL) == 20
    assert timers.earliest(ALL - {7}) == 50
    assert timers.earliest(ALL - {3, 7}) == 70
    assert timers.earliest(ALL - {3, 7, 9}) is None
    assert AbsentTimers({}).earliest(ALL) is None


def test_bins_are_fetched_when_they_are_due_and_asked_for_once():
    timers = AbsentTimers({3: 50, 7: 20, 9: 70})
    assert timers.newly_due(19, ALL) == []
    assert timers.newly_due(50, ALL - {7}) == [3]
    assert timers.newly_due(60, ALL) == []
    assert timers.newly_due(70, ALL) == [9]


def test_what_nobody_knows_holds_everything_and_is_fetched_once_anything_is_due():
    timers = AbsentTimers()
    assert timers.earliest(ALL) == NEVER
    assert timers.newly_due(NEVER, ALL) == []
    assert timers.newly_due(5, frozenset({4, 2})) == [2, 4]
    assert timers.newly_due(6, frozenset({4})) == []
    assert timers.earliest(frozenset()) is None


def test_a_next_owner_is_told_of_what_is_still_elsewhere():
    timers = AbsentTimers({3: 50, 7: 20})
    assert timers.by_bin(ALL - {7}) == {3: 50}
    assert AbsentTimers().by_bin(ALL) is None
    assert AbsentTimers().by_bin(frozenset()) == {}


def test_the_earliest_parked_row_holds_until_it_is_taken():
    parked = Earliest()
    assert parked.value is None
    parked.put(0, pl.Series([50, 20, 70]))
    parked.put(3, pl.Series([30]))
    assert parked.value == 20
    parked.remove([1])
    assert parked.value == 30
    parked.remove([0, 3])
    assert parked.value == 70
    parked.remove([2])
    assert parked.value is None
