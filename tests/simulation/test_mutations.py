"""Every known way to get the protocol wrong is found, within a stated number of seeds."""

from __future__ import annotations

import pytest

from tests.simulation.mutations import MUTATIONS, Mutation
from tests.simulation.run import Failure, run_seed
from tests.simulation.schedule import plan

BROKEN = (TypeError, AttributeError, NameError)
"""How a fault fails that no longer fits the code which it replaces: that finds nothing."""


def test_all_known_faults_are_there() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) == 28


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name.replace(" ", "-"))
def test_a_fault_is_found(mutation: Mutation) -> None:
    with mutation.switched_on():
        assert first_failure(mutation) is not None, f"{mutation.name} is not found within {mutation.seeds} seeds"


def first_failure(mutation: Mutation) -> int | None:
    for seed in range(mutation.seeds):
        try:
            run_seed(seed, schedule=plan(seed, mutation.flavour))
        except Failure as failure:
            assert not isinstance(failure.__cause__, BROKEN), f"the fault's own code is broken: {failure.__cause__!r}"
            return seed
    return None


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name.replace(" ", "-"))
def test_without_the_fault_the_same_schedules_pass(mutation: Mutation) -> None:
    for seed in range(5):
        run_seed(seed, schedule=plan(seed, mutation.flavour))
