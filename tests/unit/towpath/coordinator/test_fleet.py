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


def test_what_was_before_our_own_start_proves_nothing() -> None:
    fleet = Fleet(0.0)
    fleet.hear(STAGE, "a", beat(), 1.0)
    fleet.forget_silence(60.0)
    assert presence(fleet, 62.0) is Presence.PRESENT
    assert presence(fleet, 62.0, "never heard") is Presence.EXPECTED


def paused(*, silent_s: float, pause_s: float = 60.0) -> tuple[Fleet, float]:
    """Replica a was silent for so long when a pause of ours began; and when it ended."""
    fleet, now_s = Fleet(100.0), 100.0 + silent_s + pause_s
    fleet.hear(STAGE, "a", beat(), 100.0)
    fleet.pass_over(pause_s, now_s, LIMITS)
    return fleet, now_s


def test_our_own_pause_does_not_count_and_silence_before_it_does() -> None:
    fleet, now_s = paused(silent_s=1.0)
    assert presence(fleet, now_s + 1.9) is Presence.PRESENT
    assert presence(fleet, now_s + 2.0) is Presence.SILENT
    assert presence(fleet, now_s + 8.9, "never heard") is Presence.EXPECTED
    assert presence(fleet, now_s + 9.0, "never heard") is Presence.SILENT


def test_who_was_heard_while_a_turn_took_long_was_heard_now_at_the_latest() -> None:
    fleet, now_s = paused(silent_s=-30.0)
    assert fleet.replicas[STAGE, "a"].at_s == now_s


def test_who_was_silent_before_our_own_pause_stays_silent() -> None:
    fleet, now_s = paused(silent_s=3.0)
    assert presence(fleet, now_s) is Presence.SILENT


def test_who_was_nearly_silent_before_our_own_pause_has_a_second_to_be_heard_and_only_one() -> None:
    fleet, now_s = paused(silent_s=2.9)
    assert presence(fleet, now_s + 0.95) is Presence.PRESENT
    fleet.pass_over(5.0, now_s + 5.95, LIMITS)
    assert presence(fleet, now_s + 5.95) is Presence.PRESENT
    assert presence(fleet, now_s + 6.05) is Presence.SILENT


def test_who_was_reported_dead_stays_dead_as_long_as_its_words_are_kept() -> None:
    fleet = Fleet(0.0)
    fleet.hear(STAGE, "a", beat(), 1.0)
    fleet.died(STAGE, "a", 1.1)
    fleet.forget_silence(100.0)
    fleet.forget(100.0, LIMITS.forget_s)
    assert presence(fleet, 100.0) is Presence.DEAD
    fleet.hear(STAGE, "a", beat(incarnation="2"), 101.0)
    assert presence(fleet, 101.0) is Presence.PRESENT


def test_a_dead_life_stays_dead_until_another_is_heard() -> None:
    fleet = Fleet(0.0)
    fleet.hear(STAGE, "a", beat(incarnation="1"), 1.0)
    fleet.died(STAGE, "a", 1.1)
    fleet.hear(STAGE, "a", beat(incarnation="1"), 1.2)
    assert presence(fleet, 1.3) is Presence.DEAD
    fleet.hear(STAGE, "a", beat(incarnation="2"), 1.4)
    assert presence(fleet, 1.5) is Presence.PRESENT


def test_a_report_that_comes_late_is_of_the_life_before() -> None:
    """The next life was heard before its predecessor's end was reported."""
    fleet = Fleet(0.0)
    fleet.hear(STAGE, "a", beat(incarnation="1"), 1.0)
    fleet.hear(STAGE, "a", beat(incarnation="2"), 2.0)
    fleet.hear(STAGE, "a", beat(incarnation="2"), 2.2)
    fleet.died(STAGE, "a", 2.3)
    assert presence(fleet, 2.4) is Presence.PRESENT
    assert fleet.replicas[STAGE, "a"].joined_s == 2.0
    fleet.died(STAGE, "a", 2.5)
    assert presence(fleet, 2.6) is Presence.DEAD, "the life before has ended once only"


def test_a_life_that_dies_at_once_is_found_by_its_silence_if_its_end_is_taken_for_that_of_the_one_before() -> None:
    fleet = Fleet(0.0)
    fleet.hear(STAGE, "a", beat(incarnation="1"), 1.0)
    fleet.hear(STAGE, "a", beat(incarnation="2"), 2.0)
    fleet.died(STAGE, "a", 2.5)
    assert presence(fleet, 5.0) is Presence.SILENT


def test_a_life_whose_predecessors_end_was_reported_or_that_had_none_may_die_at_once() -> None:
    fleet = Fleet(0.0)
    for life in range(3):
        fleet.hear(STAGE, "a", beat(incarnation=str(life)), 1.0 + life)
        fleet.died(STAGE, "a", 1.5 + life)
        assert presence(fleet, 1.6 + life) is Presence.DEAD


def test_a_life_that_goes_on_has_not_ended_whatever_was_reported() -> None:
    fleet = Fleet(0.0)
    fleet.hear(STAGE, "a", beat(incarnation="1"), 1.0)
    fleet.hear(STAGE, "a", beat(incarnation="2"), 2.0)
    fleet.died(STAGE, "a", 5.1)
    for tick in range(12):
        fleet.hear(STAGE, "a", beat(incarnation="2"), 5.2 + tick / 4)
        assert presence(fleet, 5.2 + tick / 4) is Presence.DEAD
    fleet.hear(STAGE, "a", beat(incarnation="2"), 8.2)
    assert presence(fleet, 8.3) is Presence.PRESENT
    assert fleet.replicas[STAGE, "a"].joined_s == 8.2, "others wait for it as for one that comes anew"


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
