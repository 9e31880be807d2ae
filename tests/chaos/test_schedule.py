"""The schedules are what the chaos tests say of them."""

from __future__ import annotations

import itertools

import pytest

from tests.chaos.run import Told
from tests.chaos.schedule import CHANGES, LEAST, MOST, NEXT_GAP_S, Kill, Pause, Strike, Victim, schedule

MANY = range(200)


def strikes(seed: int, *, broker: bool = False) -> list[Strike]:
    return [strike for change in schedule(seed, broker=broker) for _, strike in change.strikes]


def test_a_seed_repeats_its_schedule_and_another_seed_does_not():
    assert schedule(5) == schedule(5)
    assert schedule(5) != schedule(6)


@pytest.mark.parametrize("seed", range(20))
def test_sizes_go_up_and_down_again(seed):
    counts = [1, *(change.count for change in schedule(seed))]
    assert CHANGES[0] < len(counts) <= CHANGES[1] + 1
    assert all(LEAST <= count <= MOST for count in counts)
    assert all(before != after for before, after in itertools.pairwise(counts))
    assert counts[1] > counts[0]
    assert any(after < before for before, after in itertools.pairwise(counts))


@pytest.mark.parametrize("seed", range(20))
def test_one_change_at_least_comes_a_second_after_another(seed):
    assert any(change.after_s == NEXT_GAP_S for change in schedule(seed)[2:])


def test_every_kind_of_strike_is_met():
    kills = [strike for seed in MANY for strike in strikes(seed) if isinstance(strike, Kill)]
    pauses = [strike for seed in MANY for strike in strikes(seed) if isinstance(strike, Pause)]
    assert {kill.victim for kill in kills} == set(Victim) - {Victim.BROKER}
    assert {pause.victim for pause in pauses} == set(Victim) - {Victim.BROKER}
    assert {(kill.reported, kill.wiped) for kill in kills} == {(a, b) for a in (True, False) for b in (True, False)}
    assert all(kill.victim in {Victim.OWNER, Victim.NEWCOMER} for kill in kills if kill.wiped)


def test_the_broker_is_struck_once_where_asked():
    for seed in MANY:
        assert sum(strike.victim is Victim.BROKER for strike in strikes(seed, broker=True)) == 1


def test_a_failure_says_how_to_run_it_again():
    told = Told(5, "make chaos RUNS=1 SEED=5")
    told.add("scale to 2")
    assert "seed 5; again: make chaos RUNS=1 SEED=5" in told.note()
    assert "scale to 2" in told.note()
