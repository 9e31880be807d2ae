"""Who is there, by a clock that never goes back."""

from __future__ import annotations

from tests.unit.towpath.coordinator.facts_of import LIMITS, STAGE, beat
from towpath.coordinator.fleet import Fleet, Presence
from towpath.coordinator.messages import HolderBeat


def presence(fleet: Fleet, now_s: float, name: str = "a") -> Presence:
    return fleet.presence(STAGE, name, now_s, LIMITS)


def test_silence_is_judged_after_its_time() -> None:
    fleet = Fleet(0.0)
    fleet.hear(STAGE, "a", beat(), 100.0)
    assert presence(fleet, 102.9) is Presence.PRESENT
    assert presence(fleet, 103.0) is Presence.SILENT


def test_who_was_never_heard_is_expected_for_a_while() -> None:
    assert presence(Fleet(100.0), 109.9) is Presence.EXPECTED
    assert presence(Fleet(100.0), 110.0) is Presence.SILENT


def test_our_own_pause_proves_nothing() -> None:
    fleet = Fleet(0.0)
    fleet.hear(STAGE, "a", beat(), 1.0)
    fleet.forget_silence(60.0)
    assert presence(fleet, 62.0) is Presence.PRESENT
    assert presence(fleet, 62.0, "never heard") is Presence.EXPECTED


def test_a_dead_life_stays_dead_until_another_is_heard() -> None:
    fleet = Fleet(0.0)
    fleet.hear(STAGE, "a", beat(incarnation="1"), 1.0)
    fleet.died(STAGE, "a", 1.1)
    fleet.hear(STAGE, "a", beat(incarnation="1"), 1.2)
    assert presence(fleet, 1.3) is Presence.DEAD
    fleet.hear(STAGE, "a", beat(incarnation="2"), 1.4)
    assert presence(fleet, 1.5) is Presence.PRESENT


def test_a_report_that_comes_late_condemns_no_life_that_goes_on() -> None:
    """The next life was heard before its predecessor's end was reported."""
    fleet = Fleet(0.0)
    fleet.hear(STAGE, "a", beat(incarnation="1"), 1.0)
    fleet.hear(STAGE, "a", beat(incarnation="2"), 2.0)
    fleet.died(STAGE, "a", 2.1)
    for tick in range(12):
        fleet.hear(STAGE, "a", beat(incarnation="2"), 2.2 + tick / 4)
        assert presence(fleet, 2.2 + tick / 4) is Presence.DEAD
    fleet.hear(STAGE, "a", beat(incarnation="2"), 5.2)
    assert presence(fleet, 5.3) is Presence.PRESENT
    assert fleet.replicas[STAGE, "a"].joined_s == 5.2, "others wait for it as for one that comes anew"


def test_one_reported_dead_before_it_was_ever_heard_is_dead() -> None:
    fleet = Fleet(0.0)
    fleet.died(STAGE, "a", 1.0)
    assert presence(fleet, 1.1) is Presence.DEAD


def test_one_that_says_so_has_stopped() -> None:
    fleet = Fleet(0.0)
    fleet.hear(STAGE, "a", beat(phase="stopped"), 1.0)
    assert presence(fleet, 1.1) is Presence.STOPPED


def test_what_was_not_heard_for_long_leaves_the_list() -> None:
    fleet = Fleet(0.0)
    fleet.hear(STAGE, "a", beat(), 1.0)
    fleet.hear_holder("a", HolderBeat(address="x:1"), 1.0)
    fleet.forget(62.0, LIMITS.forget_s)
    assert (fleet.replicas, fleet.addresses()) == ({}, {})


def test_a_state_managers_own_word_counts_before_its_replicas() -> None:
    fleet = Fleet(0.0)
    fleet.hear(STAGE, "a", beat(state_address="old:1"), 1.0)
    assert fleet.addresses() == {"a": "old:1"}
    fleet.hear_holder("a", HolderBeat(address="new:1"), 1.0)
    fleet.hear_holder("gone", HolderBeat(address="gone:1"), 1.0)
    assert fleet.addresses() == {"a": "new:1", "gone": "gone:1"}
