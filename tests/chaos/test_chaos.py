"""Whatever is killed or paused while an application changes size: nothing is lost, nothing is doubled (I2)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.programs import WINDOWS
from tests.chaos.run import run_schedule
from tests.chaos.schedule import SUITE, WINDOW_SUITE
from tests.harness.broker import require_java
from towpath.broker import LocalBroker

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@pytest.fixture(scope="module")
def chaos_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """One broker for all schedules, some of which strike it."""
    require_java()
    with LocalBroker(tmp_path_factory.mktemp("broker"), short_lived=True, tied=True) as broker:
        yield broker


@pytest.mark.parametrize("seed", [int(os.environ["SEED"])] if "SEED" in os.environ else list(SUITE))
def test_counts_are_those_of_an_undisturbed_run(chaos_broker, unique_name, tmp_path: Path, seed: int) -> None:
    run_schedule(seed, chaos_broker, unique_name("chaos"), tmp_path)


@pytest.mark.parametrize("seed", WINDOW_SUITE)
def test_windows_are_those_of_an_undisturbed_run(chaos_broker, unique_name, tmp_path: Path, seed: int) -> None:
    run_schedule(seed, chaos_broker, unique_name("chaos"), tmp_path, WINDOWS, "windows")
