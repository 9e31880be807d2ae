"""The schedules are what the chaos tests say of them."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from statemgr.control.records import Strategy
from tests.chaos.run import Told
from tests.chaos.schedule import (
    BROKER_EVERY,
    CHANGES,
    LEAST,
    LONG_S,
    MOST,
    NEXT_GAP_S,
    OPENINGS,
    SUITE,
    Kill,
    Pause,
    Strike,
    Victim,
    schedule,
)

MANY = range(200)


def opening(seed: int) -> tuple[int, ...]:
    """Sizes that follow each other within a second from the first on."""
    changes = schedule(seed).changes
    hasty = itertools.takewhile(lambda change: (change.after_s, change.awaited) == (NEXT_GAP_S, True), changes[1:])
    return tuple(change.count for change in (changes[0], *hasty))


def opens_with(seed: int, sizes: tuple[int, ...]) -> bool:
    return opening(seed)[: len(sizes)] == sizes


def strikes(*seeds: int) -> list[Strike]:
    return [strike for seed in seeds for strike in schedule(seed).strikes]


def test_a_seed_repeats_its_schedule_and_another_seed_does_not():
    assert schedule(5) == schedule(5)
    assert schedule(5) != schedule(6)


@pytest.mark.parametrize("seed", range(40))
def test_sizes_go_up_and_down_again(seed):
    counts = schedule(seed).counts
    assert CHANGES[0] < len(counts) <= CHANGES[1] + 1
    assert all(LEAST <= count <= MOST for count in counts)
    assert all(before != after for before, after in itertools.pairwise(counts))
    assert counts[1] > counts[0]
    assert any(after < before for before, after in itertools.pairwise(counts))


@pytest.mark.parametrize("seed", range(40))
def test_one_change_at_least_comes_a_second_after_another(seed):
    assert any(change.after_s == NEXT_GAP_S for change in schedule(seed).changes[2:])


@pytest.mark.parametrize("sizes", OPENINGS)
def test_some_schedules_change_again_a_second_after_a_change_from_two_to_three(sizes):
    assert sum(opens_with(seed, sizes) for seed in MANY) > len(MANY) / 10


def test_every_size_is_met():
    assert {count for seed in MANY for count in schedule(seed).counts} == set(range(LEAST, MOST + 1))


def test_state_travels_in_every_way_and_mostly_as_it_does_by_default():
    ways = Counter(schedule(seed).strategy for seed in MANY)
    assert ways.keys() == set(Strategy)
    assert ways[Strategy.HYBRID] > len(MANY) / 2


def test_every_kind_of_strike_is_met():
    kills = [strike for strike in strikes(*MANY) if isinstance(strike, Kill)]
    pauses = [strike for strike in strikes(*MANY) if isinstance(strike, Pause)]
    assert {kill.victim for kill in kills} == set(Victim)
    assert {pause.victim for pause in pauses} == set(Victim)
    assert max(pause.for_s for pause in pauses) <= LONG_S
    assert {(kill.reported, kill.wiped) for kill in kills} == {(a, b) for a in (True, False) for b in (True, False)}
    assert all(kill.victim in {Victim.OWNER, Victim.NEWCOMER} for kill in kills if kill.wiped)


def test_one_schedule_in_five_strikes_the_broker_once_and_kills_and_pauses_it_in_turns():
    struck = {seed: [strike for strike in strikes(seed) if strike.victim is Victim.BROKER] for seed in MANY}
    assert all(len(found) == (seed % BROKER_EVERY == 0) for seed, found in struck.items())
    kinds = [type(found[0]) for found in struck.values() if found]
    assert all(before != after for before, after in itertools.pairwise(kinds))


def test_the_schedules_of_the_suite_show_what_they_should():
    assert {type(strike) for strike in strikes(*SUITE) if strike.victim is Victim.BROKER} == {Kill, Pause}
    assert len({schedule(seed).strategy for seed in SUITE}) >= 4
    assert all(any(opens_with(seed, sizes) for seed in SUITE) for sizes in OPENINGS)
    assert {count for seed in SUITE for count in schedule(seed).counts} == set(range(LEAST, MOST + 1))


def test_a_failure_says_how_to_run_it_again():
    told = Told(5, "make chaos RUNS=1 SEED=5")
    told.add("scale to 2")
    assert "seed 5; again: make chaos RUNS=1 SEED=5" in told.note()
    assert "scale to 2" in told.note()
