"""A seed decides everything: a failure that was seen once can be looked at again."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.run import run_seed
from tests.simulation.schedule import plan

SEEDS = (3, 17, 104)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_schedule_repeats(seed: int) -> None:
    assert plan(seed) == plan(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_repeats_exactly(seed: int) -> None:
    first, second = run_seed(seed, trace=True), run_seed(seed, trace=True)
    assert first.history == second.history
    assert first.coverage == second.coverage


@pytest.mark.slow
def test_a_seed_repeats_in_another_process_whatever_the_order_of_sets() -> None:
    assert digests("0") == digests("1")


def digests(hash_seed: str) -> list[str]:
    """Digests of some seeds in a process of their own."""
    program = f"from tests.simulation.run import run_seed\nfor seed in {SEEDS}: print(run_seed(seed).digest)"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    return found.stdout.split()
