"""The coordinator over HTTP, as its client and any other see it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest
from starlette.testclient import TestClient

from statemgr.control.records import Layer, Manner, Strategy
from statemgr.security import Credentials
from tests.unit.towpath.coordinator.application import STAGE, Application
from tests.unit.towpath.coordinator.facts_of import beat
from towpath.coordinator import known, views
from towpath.coordinator.client import CoordinatorClient
from towpath.coordinator.coordinator import Coordinator
from towpath.coordinator.errors import CoordinatorError, CoordinatorUnavailableError, NotLeadingError, RefusedError
from towpath.coordinator.http import MOST_BYTES
from towpath.coordinator.http import application as http_application
from towpath.coordinator.messages import MoveRequest, ScaleRequest
from towpath.coordinator.wishes import MOST_WISHES
from towpath.coordinator.write_limit import REPLICA_AT_ONCE

STALL_S = 30.0


@pytest.fixture
def application() -> Application:
    made = Application()
    made.add("count-0")
    made.add("count-1")
    made.settle()
    return made


@pytest.fixture
def http(application: Application) -> TestClient:
    return TestClient(http_application(application.heard_by, application.clock, STALL_S))


@pytest.fixture
def client(http: TestClient) -> Iterator[CoordinatorClient]:
    """The client over the application, without a socket."""

    def answer(request: httpx.Request) -> httpx.Response:
        found = http.request(request.method, request.url.path, content=request.content, headers=dict(request.headers))
        return httpx.Response(found.status_code, content=found.content, headers=dict(found.headers))

    with CoordinatorClient("http://coordinator:7070", transport=httpx.MockTransport(answer)) as made:
        yield made


def test_host_and_port_are_enough_for_the_client() -> None:
    assert CoordinatorClient("127.0.0.1:7070").url == "http://127.0.0.1:7070"


@contextlib.contextmanager
def turning(coordinator: Coordinator) -> Iterator[None]:
    """Turns of the coordinator follow each other, as in its process."""
    over = threading.Event()

    def turn() -> None:
        while not over.wait(0.001):
            coordinator.tick()

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_heartbeat_is_answered_with_hints(application: Application, client: CoordinatorClient) -> None:
    application.add("count-2").beats = False
    client.heartbeat(STAGE, "count-2", beat(control_offset=999))
    for _ in range(40):
        client.heartbeat(STAGE, "count-2", beat(control_offset=999))
        application.step()
    answer = client.heartbeat(STAGE, "count-2", beat(control_offset=999))
    assert answer.known
    assert answer.term == 1
    (hint,) = answer.prepare
    assert hint.epoch == 2
    assert hint.layers == [Layer("count-1", 1, "count-1:7000")]
    assert hint.manner == Manner()
    assert answer.alert_s > 0


def test_scaling_is_answered_once_it_is_logged(application: Application, client: CoordinatorClient) -> None:
    with turning(application.heard_by):
        client.scale(ScaleRequest(stage=STAGE, replicas=1, manner=Manner(strategy=Strategy.LAZY, pacing=0.5)))
    application.run(0.1)
    (stage,) = client.topology().stages
    assert (stage.desired, stage.manner) == (1, Manner(strategy=Strategy.LAZY, pacing=0.5))
    assert not stage.settled
    assert stage.waiting_for is not None
    application.settle()
    (stage,) = client.topology().stages
    assert stage.settled
    assert stage.members == ["count-0"]


def test_moving_is_answered_with_what_it_takes(application: Application, client: CoordinatorClient) -> None:
    partition = min(application.replicas["count-1"].owned)
    request = MoveRequest(stage=STAGE, partition=partition, replica="count-0")
    assert client.move(request).moves == 1
    application.until("it moved", lambda: partition in application.replicas["count-0"].owned)
    application.run(0.3)
    assert client.move(request).moves == 0
    (moved,) = [move for move in client.migrations() if move.partition == partition]
    assert (moved.source, moved.target, moved.why, moved.step, moved.active) == (
        "count-1", "count-0", "asked for", "done", False,
    )  # fmt: skip
    assert moved.paused_s is not None


def test_everything_there_is_can_be_seen(application: Application, client: CoordinatorClient) -> None:
    tasks = client.tasks()
    assert [task.task for task in tasks] == ["count/0", "count/1", "count/2", "count/3"]
    assert {task.state for task in tasks} == {"running"}
    assert all(task.complete and task.owner == application.owners()[task.partition] for task in tasks)
    assert [(r.replica, r.phase, r.member, len(r.tasks)) for r in client.replicas()] == [
        ("count-0", "running", True, 2),
        ("count-1", "running", True, 2),
    ]
    assert client.migrations() == []


def test_a_dead_replica_and_its_tasks_are_shown_as_such(application: Application, client: CoordinatorClient) -> None:
    for replica in application.replicas.values():
        replica.die()
    client.died(STAGE, "count-0")
    application.run(3.5)
    assert [replica.phase for replica in client.replicas()] == ["dead", "silent"]
    assert {task.state for task in client.tasks()} == {"silent"}
    (stage,) = client.topology().stages
    assert stage.waiting_for == "0 of 1 replicas are there"


def test_a_holder_is_heard(application: Application, http: TestClient) -> None:
    assert http.post("/holders/count-0", json={"address": "machine:1"}).status_code == 200
    application.run(0.3)
    assert application.replicas["count-1"].answer.holders == {"count-0": "machine:1", "count-1": "count-1:7000"}


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        ("/scale", {"stage": "cuont", "replicas": 2}, "did you mean 'count'"),
        ("/scale", {"stage": "count", "replicas": 0}, "greater than or equal to 1"),
        ("/scale", {"stage": "count", "replica": 2}, "Extra inputs are not permitted"),
        ("/scale", {"stage": "count", "manner": {"strategy": "magic"}}, "Invalid enum value 'magic'"),
        ("/scale", {"stage": "count", "manner": {"pacing": 2}}, "pacing=2 must be above 0"),
        ("/scale", {"stage": "count", "replicas": "2"}, "replicas: Input should be a valid integer"),
        ("/scale", {"stage": "count", "replicas": True}, "replicas: Input should be a valid integer"),
        ("/scale", {"stage": "count", "replicas": 1001}, "less than or equal to 1000"),
        ("/move", {"stage": "count", "partition": 9, "replica": "count-1"}, "no task count/9"),
    ],
)
def test_a_wrong_request_is_refused_with_the_reason(http: TestClient, path: str, body: object, text: str) -> None:
    answer = http.post(path, json=body)
    assert answer.status_code == 422
    assert text in answer.text


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        ("/replicas/cuont/count-0/died", None, "there is no stage 'cuont'; did you mean 'count'?"),
        ("/replicas/count/cuont-0/died", None, "no replica 'cuont-0' has joined stage count; did you mean 'count-0'?"),
        ("/holders/cuont-0", {"address": "machine:1"}, "no replica 'cuont-0' has joined any stage; did you mean"),
        ("/holders/stranger", {"address": "machine:1"}, "no replica 'stranger' has joined any stage"),
    ],
)
def test_nobody_is_heard_of_a_name_that_nobody_knows(
    application: Application, http: TestClient, path: str, body: object, text: str
) -> None:
    answer = http.post(path, json=body)
    assert answer.status_code == 404
    assert text in answer.json()["detail"]
    application.settle()
    assert set(application.replicas["count-1"].answer.holders) == {"count-0", "count-1"}
    assert [replica["phase"] for replica in http.get("/replicas").json()] == ["running", "running"]


def test_one_that_is_known_by_the_log_alone_is_heard(application: Application) -> None:
    """A coordinator that has just begun has heard nobody; the log names owners, and whose copies are still needed."""
    moved = min(application.replicas["count-0"].owned)
    application.replicas["count-1"].completes = False
    application.heard_by.move(MoveRequest(stage=STAGE, partition=moved, replica="count-1"))
    application.until("it moved", lambda: moved in application.replicas["count-1"].owned)
    application.scale(1)
    for replica in application.replicas.values():
        replica.beats = False
    newer = TestClient(http_application(application.coordinate("c2"), application.clock, STALL_S))
    assert newer.post("/holders/count-0", json={"address": "machine:1"}).status_code == 200
    assert newer.post(f"/replicas/{STAGE}/count-1/died").status_code == 200
    assert newer.post(f"/replicas/{STAGE}/count-9/died").status_code == 404


def test_names_that_no_replica_can_have_are_refused(http: TestClient) -> None:
    for name in ("..", "a b", "-a", "ü", "a" * 101):
        answer = http.post(f"/replicas/{STAGE}/{quote(name, safe='')}/heartbeat", json={"incarnation": "x"})
        assert answer.status_code in {404, 422}, name
    assert http.post("/scale", json={"stage": "s" * 101, "replicas": 1}).status_code == 422


def test_more_newcomers_than_a_stage_may_have_are_refused_and_those_that_are_known_are_heard(
    http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known, "MOST_HEARD", 3)
    beats = [
        http.post(f"/replicas/{STAGE}/{name}/heartbeat", json={"incarnation": "x"}) for name in ("a", "b", "count-0")
    ]
    assert [each.status_code for each in beats] == [200, 422, 200]
    assert "'b' is too many" in beats[1].json()["detail"]


def test_a_replica_that_runs_wild_is_told_to_wait_and_the_others_are_heard(
    application: Application, http: TestClient
) -> None:
    beat_of = "/replicas/{}/{}/heartbeat"
    answers = [
        http.post(beat_of.format(STAGE, "count-0"), json={"incarnation": "x"}) for _ in range(REPLICA_AT_ONCE + 1)
    ]
    assert {each.status_code for each in answers[:-1]} == {200}
    assert (answers[-1].status_code, answers[-1].headers["Retry-After"]) == (429, "1")
    assert "too many requests at /replicas/count/count-0/heartbeat" in answers[-1].json()["detail"]
    assert http.post(beat_of.format(STAGE, "count-1"), json={"incarnation": "x"}).status_code == 200
    assert http.get("/topology").status_code == 200
    application.clock.advance(1.0)
    assert http.post(beat_of.format(STAGE, "count-0"), json={"incarnation": "x"}).status_code == 200


def test_what_json_cannot_say_is_refused_with_the_reason(http: TestClient) -> None:
    body = b'{"stage": "count", "manner": {"pacing": NaN}}'
    answer = http.post("/scale", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, "pacing" in answer.json()["detail"]) == (422, True)


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_that_is_too_large_is_refused_before_it_is_held(http: TestClient, announced: bool) -> None:
    pieces = (b" " * 65_536 for _ in range(100))
    content: bytes | Iterator[bytes] = b" " * (MOST_BYTES + 1) if announced else pieces
    answer = http.post("/scale", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 413
    assert answer.json()["detail"] == f"the request's body has more than {MOST_BYTES} bytes"


def test_another_manner_alone_leaves_the_number_as_it_is(application: Application, http: TestClient) -> None:
    with turning(application.heard_by):
        assert http.post("/scale", json={"stage": STAGE, "replicas": 1}).status_code == 200
        assert http.post("/scale", json={"stage": STAGE, "manner": {"bins": 64}}).status_code == 200
    (stage,) = views.topology(application.heard_by.facts(), "kc", leading=True).stages
    assert (stage.desired, stage.manner.bins) == (1, 64)
    with turning(application.heard_by):
        assert http.post("/scale", json={"stage": STAGE, "replicas": None}).status_code == 200
    (stage,) = views.topology(application.heard_by.facts(), "kc", leading=True).stages
    assert (stage.desired, stage.manner.bins) == (None, 64)


def test_a_manner_behind_a_number_that_is_not_in_force_yet_keeps_that_number(application: Application) -> None:
    application.heard_by.scale(ScaleRequest(stage=STAGE, replicas=1))
    application.heard_by.scale(ScaleRequest(stage=STAGE, manner=Manner(bins=64)))
    application.run(2.0)
    assert application.heard_by.facts().desired(STAGE) == 1


def test_the_client_gives_the_reason_of_a_refusal(client: CoordinatorClient) -> None:
    with pytest.raises(RefusedError, match="no stage 'other'"):
        client.scale(ScaleRequest(stage="other", replicas=1))


def test_one_that_does_not_lead_says_so_and_stays_healthy(application: Application, client: CoordinatorClient) -> None:
    older = application.heard_by
    older.scale(ScaleRequest(stage=STAGE, replicas=None))
    application.coordinate("c2")
    application.run(0.3)
    with pytest.raises(NotLeadingError, match="newest is c2"):
        client.move(MoveRequest(stage=STAGE, partition=0, replica="count-0"))
    health = client.health()
    assert (health.leading, health.term) == (False, 2)
    assert "does not lead" in (health.problem or "")
    assert len(client.tasks()) == 4


def test_health_turns_red_when_turns_stop(application: Application, http: TestClient) -> None:
    assert http.get("/health").status_code == 200
    application.clock.advance(STALL_S)
    answer = http.get("/health")
    assert answer.status_code == 503
    assert answer.json()["problem"] == "no turn for 30 s (limit 30 s)"


def test_a_stalled_move_is_named_by_health_counted_for_prometheus_and_no_illness(
    application: Application, client: CoordinatorClient, http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "PATIENCE_S", 2.0)
    assert http.get("/health").json()["stalled"] == []
    newcomer = application.replicas["count-1"]
    partition = min(application.replicas["count-0"].owned)
    newcomer._take_up = lambda: None
    client.move(MoveRequest(stage=STAGE, partition=partition, replica="count-1"))
    application.run(4.0)
    answer = http.get("/health")
    assert answer.status_code == 200
    assert (answer.json()["problem"], len(answer.json()["stalled"])) == (None, 1)
    assert answer.json()["stalled"][0].startswith(f"count/{partition}: count-1 does not run it")
    assert 'towpath_moves_stalled{stage="count"} 1.0' in http.get("/metrics").text


@pytest.mark.parametrize(
    "said",
    [
        {"bins_total": None},
        {"bins_done": "1", "bins_total": "256"},
        {"elapsed_s": "long", "stalled": 5, "phase": ["?"]},
        {"elapsed_s": None, "rate": 10**400, "bytes": {}},
        {"records": "nan", "remaining": [1], "stalled": {"a": 1}},
    ],
)
@pytest.mark.parametrize("copy", [False, True])
def test_nonsense_that_one_replica_says_blinds_nobody(
    application: Application, http: TestClient, said: dict[str, object], copy: bool
) -> None:
    application.scale(2, Strategy.STANDBY)
    application.run(0.5)
    newcomer = application.replicas["count-1"]
    partition = min(application.replicas["count-0"].owned)
    if not copy:
        newcomer._take_up = lambda: None
        http.post("/move", json={"stage": STAGE, "partition": partition, "replica": "count-1"})
        application.run(6.0)
    newcomer.beats = False
    report = {"partition": partition, "epoch": 2, "state": "opening", "complete": False, "migration": said}
    words = {"incarnation": "count-1-1", "control_offset": 999, "copies" if copy else "tasks": [report]}
    assert http.post(f"/replicas/{STAGE}/count-1/heartbeat", json=words).status_code == 200
    application.step()
    for path in ("/health", "/metrics", "/migrations", "/tasks", "/topology"):
        assert http.get(path).status_code == 200, path
    assert http.get("/migrations").json()[0]["progress"] == said


def test_requests_beyond_those_that_may_wait_are_refused_and_heartbeats_are_answered(
    application: Application, http: TestClient
) -> None:
    request = ScaleRequest(stage=STAGE, replicas=1)
    for _ in range(MOST_WISHES):
        application.heard_by.scale(request)
    answer = http.post("/scale", json=request.model_dump())
    assert answer.status_code == 503
    assert "8 requests are not in force yet" in answer.json()["detail"]


def test_figures_are_there_for_prometheus(application: Application, http: TestClient) -> None:
    text = http.get("/metrics").text
    assert "towpath_coordinator_leading 1.0" in text
    assert 'towpath_tasks{replica="count-0",stage="count"} 2.0' in text
    assert 'towpath_replicas{presence="present",stage="count"} 2.0' in text
    assert 'towpath_assignments_total{why="first owner"} 4.0' in text


def test_the_interface_describes_itself(http: TestClient) -> None:
    document = http.get("/openapi.json").json()
    assert {"/scale", "/move", "/topology", "/replicas/{stage}/{name}/heartbeat"} <= document["paths"].keys()
    assert "strategy" in str(document["components"]["schemas"]["ScaleRequest"])
    assert http.get("/docs").status_code == 200


# --- the client by itself ---


def test_where_nobody_answers_one_line_says_what_to_do() -> None:
    with CoordinatorClient("http://127.0.0.1:1") as client, pytest.raises(CoordinatorUnavailableError) as caught:
        client.topology()
    assert "no coordinator answers at http://127.0.0.1:1" in str(caught.value)
    assert "--coordinator" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_coordinator_is_named() -> None:
    answers = {"/tasks": httpx.Response(404, text="<html>"), "/topology": httpx.Response(200, json={"a": 1})}
    transport = httpx.MockTransport(lambda request: answers[request.url.path])
    with CoordinatorClient(transport=transport) as client:
        with pytest.raises(CoordinatorError, match="unexpected answer 404"):
            client.tasks()
        with pytest.raises(CoordinatorError, match="does not answer like a coordinator"):
            client.topology()


def test_a_url_that_is_none_is_refused() -> None:
    with pytest.raises(CoordinatorError):
        CoordinatorClient("127.0.0.1:7070").topology()


def test_a_token_is_sent_if_there_is_one() -> None:
    seen: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("Authorization"))
        return httpx.Response(200, json=[])

    with CoordinatorClient(credentials=Credentials(("abc",)), transport=httpx.MockTransport(answer)) as client:
        client.tasks()
    assert seen == ["Bearer abc"]
