"""Whatever is killed or paused while an application changes size: nothing is lost, nothing is doubled (I2)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.run import run_schedule
from tests.harness.broker import require_java
from towpath.broker import LocalBroker

pytestmark = [pytest.mark.slow, pytest.mark.broker]

SEEDS = range(1, 11)
BROKER_SEED = 10
"""The schedule in which the broker is killed, too; the last, so that the others don't wait for its recovery."""


@pytest.fixture(scope="module")
def chaos_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """One broker for all schedules, which one of them may kill."""
    require_java()
    with LocalBroker(tmp_path_factory.mktemp("broker"), short_lived=True, tied=True) as broker:
        yield broker


@pytest.mark.parametrize("seed", [int(os.environ["SEED"])] if "SEED" in os.environ else list(SEEDS))
def test_counts_are_those_of_an_undisturbed_run(chaos_broker, unique_name, tmp_path: Path, seed: int) -> None:
    run_schedule(seed, chaos_broker, unique_name("chaos"), tmp_path, strike_broker=seed == BROKER_SEED)
