"""The page about latency and migrations: that it needs nothing from elsewhere, and what it shows."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import towpath.coordinator.page
from tests.unit.towpath.coordinator.application import STAGE, Application
from tests.unit.towpath.coordinator.test_history import beat, buckets
from towpath.coordinator.http import application as http_application
from towpath.coordinator.page import page

SCRIPT = Path(towpath.coordinator.page.__file__).parent / "page.js"
NODE = shutil.which("node")


@pytest.fixture
def application() -> Application:
    made = Application()
    made.add("count-0")
    made.settle()
    return made


@pytest.fixture
def http(application: Application) -> TestClient:
    return TestClient(http_application(application.heard_by, application.clock, 30.0))


def test_it_is_served_and_may_run_its_own_script_alone(http: TestClient) -> None:
    answer = http.get("/")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    (script,) = re.findall(r"<script>(.*?)</script>", answer.text, re.DOTALL)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    policy = answer.headers["content-security-policy"]
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy


def test_it_takes_nothing_from_elsewhere_and_sets_no_markup() -> None:
    html = page().html
    addresses = set(re.findall(r"https?://[^\s\"'<>]+", html))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of a namespace
    assert not re.findall(r"\b(src|href)=\"(?!data:)", html)
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\b|@import|url\(", html)


def test_it_asks_for_what_the_coordinator_has(http: TestClient) -> None:
    asked = set(re.findall(r"ask\([`\"](\w+)", page().html))
    assert asked == {"history", "topology", "migrations"}
    for path in asked:
        assert http.get(f"/{path}").status_code == 200


def shown(answers: dict[str, Any]) -> dict[str, Any]:
    """What the page shows of these answers, by its own script."""
    if NODE is None:
        pytest.skip("the page's script needs Node.js to run without a browser: node is not installed")
    command = [NODE, str(Path(__file__).with_name("page_in_node.js")), str(SCRIPT)]
    done = subprocess.run(command, input=json.dumps(answers), capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def answers_of(http: TestClient) -> dict[str, Any]:
    return {path: http.get(f"/{path}").json() for path in ("history", "topology", "migrations")}


def test_stages_replicas_and_latency_are_drawn(application: Application, http: TestClient) -> None:
    coordinator = application.heard_by
    coordinator.history.hear(STAGE, "count-0", beat())
    coordinator.history.hear(STAGE, "count-0", beat(rows=4000, stage_latency=buckets(b2=90, b9=10)))
    application.run(1.5)
    page_shows = shown(answers_of(http))
    (stage,) = page_shows["stages"]
    assert page_shows["said"] == "leads, term 1, 0 migrations under way"
    assert stage["text"].startswith("count · 4 tasks on")
    assert "count-0: 0, 1, 2, 3 (running)" in stage["text"]
    titles = [label.split(":")[0] for label in stage["charts"]]
    assert titles == ["rows a second", "input offsets behind", "append until commit"]
    assert re.search(r"p50 \d+\.?\d* ms, p99 \d+ ms", stage["charts"][2])
    assert all("NaN" not in path for path in stage["paths"])


def test_migrations_under_way_and_past_are_listed_with_their_phases(application: Application, http: TestClient) -> None:
    newcomer = application.add("count-1")
    newcomer.completes = False
    application.until("count-1 runs tasks", lambda: bool(newcomer.owned))
    application.run(1.5)
    page_shows = shown(answers_of(http))
    assert "2 migrations under way" in page_shows["said"]
    assert len(page_shows["moves"]) == 2
    assert all(re.match(r"count/\d count-0 count-1 scale hybrid running", row) for row in page_shows["moves"])
    newcomer.completes = True
    application.run(2.0)
    page_shows = shown(answers_of(http))
    assert all("done" in row for row in page_shows["moves"])
    assert {"prepare", "background"} <= set(page_shows["phases"])


def test_a_move_says_what_came_and_how_much_was_there(application: Application, http: TestClient) -> None:
    answers = answers_of(http)
    move = {
        "task": "count/3",
        "stage": "count",
        "partition": 3,
        "source": "count-0",
        "target": "<b>",
        "epoch": 2,
        "why": "scale",
        "strategy": "hybrid",
        "step": "done",
        "active": False,
        "elapsed_s": 21.0,
        "paused_s": 0.3,
        "stalled": None,
        "begun_ago_s": 3.0,
        "phases": {"prepare": 0.5, "release": 0.1, "take_over": 0.2},
        "progress": {"bytes": 1_250_000, "look_ups": 1234, "keys_asked": 200, "local_hits": 150},
    }
    (row,) = shown({**answers, "migrations": [move]})["moves"]
    assert "count/3 count-0 <b> scale hybrid done 300 ms 21 s" in " ".join(row.split())
    assert row.split()[-6:] == ["1.3", "MB", "1.2", "k", "75", "%"]


def test_an_absent_coordinator_is_named(http: TestClient) -> None:
    page_shows = shown({})
    assert page_shows["bad"]
    assert "the coordinator does not answer" in page_shows["said"]
