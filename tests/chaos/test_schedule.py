"""The schedules are what the chaos tests say of them."""

from __future__ import annotations

import pytest

from tests.chaos.run import Told
from tests.chaos.schedule import LEAST, LENGTH_S, MOST, NEXT_GAP_S, Kill, Pause, Scale, Victim, schedule
import itertools

MANY = range(200)


def sizes(seed: int) -> list[tuple[float, int]]:
    return [(at_s, step.count) for at_s, step in schedule(seed) if isinstance(step, Scale)]


def test_a_seed_repeats_its_schedule_and_another_seed_does_not():
    assert schedule(5) == schedule(5)
    assert schedule(5) != schedule(6)


@pytest.mark.parametrize("seed", range(20))
def test_sizes_go_up_and_down_again_and_once_at_least_a_second_apart(seed):
    counts = [1, *(count for _, count in sizes(seed))]
    assert all(LEAST <= count <= MOST for count in counts)
    assert all(before != after for before, after in itertools.pairwise(counts))
    assert any(after < before for before, after in itertools.pairwise(counts))
    times = [at_s for at_s, _ in sizes(seed)]
    assert any(after - before == pytest.approx(NEXT_GAP_S) for before, after in itertools.pairwise(times))


def test_every_kind_of_strike_is_met():
    steps = [step for seed in MANY for _, step in schedule(seed)]
    kills = [step for step in steps if isinstance(step, Kill)]
    assert {step.victim for step in kills} == set(Victim) - {Victim.BROKER}
    assert {step.victim for step in steps if isinstance(step, Pause)} == set(Victim) - {Victim.BROKER}
    assert {(step.reported, step.wiped) for step in kills} == {(a, b) for a in (True, False) for b in (True, False)}
    assert all(step.victim in {Victim.OWNER, Victim.NEWCOMER} for step in kills if step.wiped)


def test_the_broker_is_struck_once_where_asked():
    for seed in MANY:
        assert (
            sum(isinstance(step, Kill) and step.victim is Victim.BROKER for _, step in schedule(seed, broker=True)) == 1
        )


def test_steps_are_in_order_and_within_the_schedule():
    for seed in MANY:
        times = [at_s for at_s, _ in schedule(seed)]
        assert times == sorted(times)
        assert times[-1] < LENGTH_S


def test_a_failure_says_how_to_run_it_again():
    told = Told(5, "make chaos RUNS=1 SEED=5")
    told.add("scale to 2")
    assert "seed 5; again: make chaos RUNS=1 SEED=5" in told.note()
    assert "scale to 2" in told.note()
