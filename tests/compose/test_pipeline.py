"""The shipped docker-compose.yml, run for real: load, kill of a stage, 1 → 3 → 1 containers, outputs as the oracle."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.compose.conftest import Projects
from tests.harness.compose import ROOT, SETTLE_LIMIT_S, Compose, docker, image_missing, kill_process, text_of
from tests.harness.dashboards import alert_queries, panel_queries
from tests.harness.documented import command, commands
from tests.harness.waiting import wait_for

EVENTS_PER_S = 1000
SECONDS = 90
"""Of load: long enough for two changes of size on two busy cores."""

SCRAPED_S = 60.0
OF_EVENT_TIME = {"pipeline: Watermark behind the clock (A)"}
"""Panels that are empty with a query without event time."""

PROMETHEUS = "prom/prometheus:v2.42.0"

pytestmark = [pytest.mark.compose, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def compose(projects: Projects) -> Compose:
    return projects(RATE=EVENTS_PER_S, DURATION=f"{SECONDS}s")


def documented(beginning: str) -> str:
    """The command of the quick start that begins so."""
    return command("docs/quickstart.md", f"docker compose {beginning}")


def test_outputs_equal_the_oracle_although_counters_come_and_go_and_one_is_killed(compose: Compose) -> None:
    begin_s = time.monotonic()
    compose.shell(documented("up -d --wait"))
    print(f"up and healthy after {time.monotonic() - begin_s:.0f} s")
    if image_missing(PROMETHEUS) is None:
        compose("up", "-d", "--no-deps", "prometheus")
    compose.await_settled("count", 1)

    compose.shell(documented("up -d --scale count=3"))
    compose.await_settled("count", 3)
    assert "count/7" in compose.shell(documented("exec coordinator towpath tasks"))
    assert "count/" in compose.shell(documented("exec coordinator towpath migrations"))
    victim = compose.containers("count")[0]
    kill_process(victim, "towpath.cli stage")
    wait_for(
        "the killed stage is started again",
        lambda: "stage crashed with status 137 and is started again" in docker("logs", victim),
        SETTLE_LIMIT_S,
        compose.logs,
    )
    compose.await_settled("count", 3)
    before_s = time.time()
    compose.shell(documented("up -d --scale count=1"))
    compose.await_settled("count", 1)

    assert compose.exit_codes("count", before_s) == ["0", "0"], compose.logs()
    assert compose("ps", "-q", "load").strip(), "the load was over before the last change: make it longer"
    compose.shell(documented("wait"))
    compose.await_exit("load")
    compose.await_exit("latency")
    outputs = json.loads(compose.shell(documented("run --rm verify")).strip().splitlines()[0])["outputs"]
    assert outputs["input_events"] == EVENTS_PER_S * SECONDS
    assert outputs["mismatches"] == 0


def test_the_report_can_be_taken_out(compose: Compose, tmp_path: Path) -> None:
    compose("cp", "latency:/data/latency/summary.json", str(tmp_path))
    print((tmp_path / "summary.json").read_text())
    compose.shell(documented("cp latency:"), tmp_path)
    assert "<html" in (tmp_path / "report.html").read_text()


@pytest.fixture(scope="module")
def prometheus(compose: Compose) -> Callable[[str], list[object]]:
    missing = image_missing(PROMETHEUS)
    if missing is not None:
        pytest.skip(missing)

    def ask(query: str) -> list[object]:
        url = f"http://127.0.0.1:{compose.ports['PROMETHEUS_PORT']}/api/v1/query?query={quote(query)}"
        answer = json.loads(text_of(url))
        assert answer["status"] == "success", answer
        found: list[object] = answer["data"]["result"]
        return found

    return ask


def test_every_container_of_every_stage_is_scraped(compose: Compose, prometheus: Callable[[str], list[object]]) -> None:
    containers = len(compose.containers("source")) + len(compose.containers("count"))
    wait_for(
        "all targets are up",
        lambda: len(prometheus('up{job="stages"} == 1')) == containers and prometheus('up{job="coordinator"} == 1'),
        SCRAPED_S,
        lambda: str(prometheus("up")),
    )


def test_every_panel_of_the_dashboards_shows_data(prometheus: Callable[[str], list[object]]) -> None:
    empty = {name for name, query in panel_queries("10m").items() if not prometheus(query)}
    assert empty == OF_EVENT_TIME


def test_every_alert_is_understood_and_none_is_raised_by_a_change_of_size(
    compose: Compose, prometheus: Callable[[str], list[object]]
) -> None:
    rules = json.loads(text_of(f"http://127.0.0.1:{compose.ports['PROMETHEUS_PORT']}/api/v1/rules"))
    found = {rule["name"]: rule["health"] for group in rules["data"]["groups"] for rule in group["rules"]}
    assert found == dict.fromkeys(alert_queries(), "ok")
    assert prometheus('ALERTS{alertstate="firing"}') == []


def test_containers_stop_cleanly_within_their_grace_period(compose: Compose) -> None:
    services = ["source", "count", "coordinator"]
    begin_s = time.monotonic()
    compose("stop", *services)

    assert time.monotonic() - begin_s < 60, "nobody is there to take over: they need not wait"
    states = compose("ps", "-a", "--format", "{{.Service}} {{.ExitCode}}", *services)
    assert sorted(states.split()) == sorted([part for service in services for part in (service, "0")])


def test_everything_that_the_quick_start_tells_to_type_was_run(compose: Compose) -> None:
    compose.shell(documented("down"))
    assert compose.typed == set(commands("docs/quickstart.md", "docker compose"))


@pytest.mark.parametrize("query", [path.stem for path in (ROOT / "deploy" / "compose").glob("queries.*.yml")])
def test_compose_takes_the_file_of_every_query(query: str, projects: Projects) -> None:
    config = json.loads(projects(QUERY=query)("config", "--format", "json"))
    assert {"kafka", "topics", "coordinator", "load", "latency"} < set(config["services"])
