"""What a coordinator and a pod know of a query, without the runtime."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from towpath.errors import SettingsError
from towpath.outline import find_outline
from towpath.query import load_query, render_json

QUERY = "queries.q5"


@pytest.fixture
def plans(tmp_path: Path) -> Path:
    (tmp_path / f"{QUERY}.json").write_text(render_json(load_query(QUERY)))
    return tmp_path


def without_polars(code: str) -> str:
    """Standard error of a program where neither Polars nor NumPy is installed."""
    program = f"import sys; sys.modules['polars'] = sys.modules['numpy'] = None; {code}"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False).stderr


def test_a_saved_plan_tells_the_same_as_the_plan_itself(plans: Path) -> None:
    plan, outline = load_query(QUERY), find_outline(QUERY, (), plans)
    assert outline.app == plan.app
    assert [(stage.name, stage.stateful) for stage in outline.stages] == [(s.name, s.stateful) for s in plan.stages]
    assert [[(item.topic, item.partitions) for item in stage.inputs] for stage in outline.stages] == [
        [(item.topic, item.partitions) for item in stage.inputs] for stage in plan.stages
    ]


def test_an_unknown_stage_is_named_with_those_there_are(plans: Path) -> None:
    with pytest.raises(SettingsError, match="query 'q5' has no stage 'cuont'; its stages: source, count, hottest"):
        find_outline(QUERY, (), plans).stage("cuont")


def test_a_file_that_is_no_plan_is_named(tmp_path: Path) -> None:
    (tmp_path / "my.query.json").write_text("{}")
    with pytest.raises(
        SettingsError, match=r"my\.query\.json: .*app.*; expected what towpath plan --format json prints"
    ):
        find_outline("my.query", (), tmp_path)


@pytest.mark.slow
def test_without_a_file_or_with_settings_the_query_is_planned(plans: Path) -> None:
    assert find_outline("queries.key_count", (), plans).app == "key_count"
    (plans / f"{QUERY}.json").write_text("{}")
    assert find_outline(QUERY, ("partitions=3",), plans).stage("count").inputs[0].partitions == 3


@pytest.mark.slow
def test_a_query_that_can_not_be_loaded_is_one_line() -> None:
    with pytest.raises(SettingsError, match=r"^there is no module 'queries\.q55'; did you mean 'queries\.q5'\?$"):
        find_outline("queries.q55", (), None)


@pytest.mark.slow
def test_without_polars_the_coordinator_runs_and_says_which_plan_is_missing(plans: Path) -> None:
    assert without_polars("import towpath.coordinator.service, towpath.launch.run_pod, towpath.cli") == ""
    clients = "k.producer(transactional_id='t', name='p'), k.consumer(read_committed=True, name='c')"
    kafka = "from statemgr.kafka.confluent import ConfluentKafka as K; k = K('127.0.0.1:1')"
    assert without_polars(f"import os; os.environ['TOWPATH_NATIVE'] = 'off'; {kafka}; {clients}") == ""
    find = f"import pathlib, towpath.outline as o; o.find_outline('%s', (), pathlib.Path({str(plans)!r}))"
    assert without_polars(find % QUERY) == ""
    said = without_polars(find % "my.query")
    assert (
        f"my.query can't be planned here, where Polars is not installed, and there is no plan of it in {plans}" in said
    )
    assert "towpath plan my.query --format json > my.query.json" in said
