"""A few hundred seeds; ``make simulate`` runs as many as one likes."""

from __future__ import annotations

import pytest

from tests.simulation.run import run_seed

CHUNK = 30


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 300, CHUNK))
def test_whatever_happens_the_output_is_that_of_a_run_without_it(first: int) -> None:
    for seed in range(first, first + CHUNK):
        run_seed(seed)
