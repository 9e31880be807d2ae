"""Kill -9 at any time, and the result is that of a run without any fault (I2)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from loadgen.oracle import verify_topics
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
from tests.harness.spark import running_session
from tests.harness.strikes import History, carry_out, schedule
from towpath.broker import LocalBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.spark]

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


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session for all comparisons; started by the first of them, not while replicas are killed."""
    yield from running_session(tmp_path_factory.mktemp("spark"))


@pytest.fixture
def require_oracle(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Compare outputs, and state if there is any, with the batch oracle, which shares no code with the stages."""

    def require(deployment: Deployment, *, state: bool = False, **options: str) -> None:
        results = verify_topics(
            request.getfixturevalue("spark"),
            deployment.bootstrap,
            deployment.plan.app,
            deployment.source,
            deployment.plan.stages[-1].outputs[0].topic,
            state=deployment.state_file("count") if state else None,
            **options,
        )
        assert [result.to_dict() for result in results if not result.ok] == []
        assert len(results) == 1 + state

    return require


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
            assert "running" in history.phases, "no kill has met a running replica"
            return deployment, bids_of(load.values())

    return run


@pytest.mark.parametrize("seed", seeds(11, 12))
def test_counts_are_those_of_an_undisturbed_run(struck, require_oracle, own_broker, tmp_path, seed, request):
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
        require_oracle(deployment, state=True, emit="each")


@pytest.mark.parametrize("seed", seeds(21))
def test_stateless_stages_lose_and_repeat_nothing(struck, require_oracle, own_broker, tmp_path, seed, request):
    deployment = Deployment("queries.map_map", own_broker.bootstrap, tmp_path / "run")
    history = History(seed)
    _, bids = struck(deployment, history, list(deployment.replicas), kills=12)
    with told(history, request):
        compare_mapped(deployment.outputs(), bids)
        require_oracle(deployment)


@pytest.mark.parametrize("seed", seeds(31))
def test_at_least_once_repeats_outputs_only(struck, require_oracle, own_broker, tmp_path, seed, request):
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
        require_oracle(deployment, state=True, emit="each", guarantee="at_least_once")
