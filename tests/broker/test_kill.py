"""Kill -9 at any time, and the result is that of a run without any fault (I2)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.deployment import Deployment, deployed
from tests.harness.load import Load
from tests.harness.reference import (
    Bid,
    bids_of,
    compare_each_count,
    compare_mapped,
    compare_repeated_counts,
    compare_state,
    final_counts,
)
from tests.harness.strikes import History, carry_out, schedule
from towpath.broker import LocalBroker

pytestmark = pytest.mark.slow

RATE = 2000
"""Events a second: continuous work on two cores that also start a process every second."""


def seeds(*usual: int) -> list[int]:
    """Seeds of a test; the variable SEED replaces them by one."""
    return [int(os.environ["SEED"])] if "SEED" in os.environ else list(usual)


@contextmanager
def told(history: History, request: pytest.FixtureRequest) -> Iterator[None]:
    """A failure tells seed, history, and how to run it again."""
    try:
        yield
    except BaseException as error:
        error.add_note(history.note(request.node.nodeid))
        raise


@pytest.fixture
def struck(
    own_broker: LocalBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> Callable[..., tuple[Deployment, list[Bid]]]:
    """Run a query under load and kills, drain and stop it; gives it with the bids that were sent."""

    def run(deployment: Deployment, history: History, victims: list[str], kills: int) -> tuple[Deployment, list[Bid]]:
        with (
            told(history, request),
            deployed(deployment),
            Load(own_broker.bootstrap, deployment.source, rate=RATE) as load,
        ):
            carry_out(schedule(history.seed, victims, kills), deployment, history)
            load.stop()
            history.add(f"load stopped after {load.sent} events")
            deployment.await_running()
            deployment.drain()
            history.add("drained")
            deployment.stop()
            history.add("stopped")
            return deployment, bids_of(load.values())

    return run


@pytest.mark.parametrize("seed", seeds(11, 12))
def test_counts_are_those_of_an_undisturbed_run(struck, own_broker, tmp_path, seed, request):
    deployment = Deployment(
        "queries.key_count",
        own_broker.bootstrap,
        tmp_path / "run",
        replicas={"count": 2},
        settings={"emit": "each"},
    )
    history = History(seed)
    _, bids = struck(deployment, history, list(deployment.replicas), kills=18)
    with told(history, request):
        compare_each_count(deployment.outputs(), bids)
        compare_state(deployment.state("count", "count"), final_counts(bids))
        print(history.note(""))


@pytest.mark.parametrize("seed", seeds(21))
def test_stateless_stages_lose_and_repeat_nothing(struck, own_broker, tmp_path, seed, request):
    deployment = Deployment("queries.map_map", own_broker.bootstrap, tmp_path / "run")
    history = History(seed)
    _, bids = struck(deployment, history, list(deployment.replicas), kills=12)
    with told(history, request):
        compare_mapped(deployment.outputs(), bids)
        print(history.note(""))


@pytest.mark.parametrize("seed", seeds(31))
def test_at_least_once_repeats_outputs_only(struck, own_broker, tmp_path, seed, request):
    deployment = Deployment(
        "queries.key_count",
        own_broker.bootstrap,
        tmp_path / "run",
        replicas={"count": 2},
        settings={"emit": "each"},
        options=["--guarantee", "at-least-once"],
    )
    history = History(seed)
    _, bids = struck(deployment, history, deployment.of_stage("count"), kills=8)
    with told(history, request):
        compare_repeated_counts(deployment.outputs(), bids)
        compare_state(deployment.state("count", "count"), final_counts(bids))
        print(history.note(""))
