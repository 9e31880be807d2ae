"""How the launcher follows a coordinator that can't always do what it is asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient

from statemgr.migration.ports import Spawn
from tests.harness.waiting import wait_for
from tests.unit.towpath.coordinator.application import STAGE, Application
from towpath.coordinator.client import CoordinatorClient
from towpath.coordinator.errors import RefusedError
from towpath.coordinator.http import application as http_application
from towpath.launch import Pipeline, ProcessState, Program
from towpath.launch.beside import beside
from towpath.launch.follow import AT_ONCE, Follower
from towpath.stage.background import at_once

Handler = Callable[[httpx.Request], httpx.Response]


class Line:
    """The coordinator's HTTP interface without a socket.

    Attributes:
        troubles: what happens to the next requests to scale, instead of their being carried out.
    """

    def __init__(self, application: Application) -> None:
        self.application = application
        self.troubles: list[Handler] = []
        self._http = TestClient(http_application(application.heard_by, application.clock, 30.0))

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/scale":
            if self.troubles:
                return self.troubles.pop(0)(request)
            # The answer is given when it is in force, for which the coordinator needs its turns.
            self.application.heard_by.scale(_scale_request(request))
            self.application.run(0.2)
            return httpx.Response(200, json={"term": 1})
        found = self._http.request(request.method, request.url.path, content=request.content)
        return httpx.Response(found.status_code, content=found.content)


def _scale_request(request: httpx.Request):
    from towpath.coordinator.messages import ScaleRequest

    return ScaleRequest.model_validate_json(request.content)


def not_in_force(_: httpx.Request) -> httpx.Response:
    return httpx.Response(503, json={"detail": "the request is not in force after 12 s"})


def timed_out(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadTimeout("timed out", request=request)


def refused(_: httpx.Request) -> httpx.Response:
    return httpx.Response(422, json={"detail": "kc has no stage 'count'"})


@pytest.fixture
def application() -> Application:
    """Two replicas, of which an earlier run has wanted one."""
    made = Application()
    made.add("count-0")
    made.add("count-1")
    made.scale(1)
    made.settle()
    return made


@pytest.fixture
def line(application: Application) -> Line:
    return Line(application)


@pytest.fixture
def client(line: Line) -> Iterator[CoordinatorClient]:
    with CoordinatorClient("http://coordinator:7070", transport=httpx.MockTransport(line)) as made:
        yield made


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def follower(client: CoordinatorClient, said: list[str], tmp_path: Path) -> Follower:
    """Requests are answered within the look that sends them."""
    return following(client, said, tmp_path, at_once)


def following(client: CoordinatorClient, said: list[str], tmp_path: Path, spawn: Spawn) -> Follower:
    """The operator has asked for two, and two are there: whatever would be started or stopped now is an error."""
    pipeline = Pipeline([Program(f"count-{index}", STAGE, ("true",)) for index in range(2)], tmp_path)

    def make(stage: str, name: str) -> Program:
        raise AssertionError(f"{name} of {stage} is started")

    return Follower(pipeline, client, {STAGE: 2}, {STAGE: 2}, make, said.append, spawn)


class Recording(Pipeline):
    """Starts nothing, and asks nobody to leave."""

    def __init__(self, programs: list[Program], directory: Path) -> None:
        super().__init__(programs, directory)
        self.added: list[str] = []

    def add(self, program: Program) -> None:
        self.added.append(program.name)
        self._programs.append(program)

    def retire(self, name: str) -> None:
        pass


def desired(client: CoordinatorClient) -> int | None:
    return client.topology().stages[0].desired


def test_what_the_operator_asks_for_is_asked_for_again_until_it_is_in_force(
    line: Line, follower: Follower, client: CoordinatorClient, said: list[str]
) -> None:
    line.troubles = [not_in_force, timed_out]
    follower.look([])
    assert said == ["2 of count can't be asked for now, tried again: the request is not in force after 12 s"]
    follower.look([])
    assert len(said) == 1, "it is said once"
    assert (desired(client), follower.leaving) == (1, frozenset()), "nobody leaves for what is to be replaced"
    follower.look([])
    assert desired(client) == 2
    follower.look([])
    assert follower.leaving == frozenset()


def test_what_another_asks_for_later_holds(
    line: Line, follower: Follower, client: CoordinatorClient, application: Application
) -> None:
    line.troubles = [not_in_force]
    follower.look([])
    application.scale(2)  # the first request came to be in force after all
    application.run(0.2)
    follower.look([])
    line.troubles = [refused]
    application.scale(None)
    application.run(0.2)
    follower.look([])
    assert (desired(client), len(line.troubles)) == (None, 1)


def test_what_is_refused_ends_the_run(line: Line, follower: Follower) -> None:
    line.troubles = [refused]
    with pytest.raises(RefusedError, match="no stage 'count'"):
        follower.look([])


def test_nothing_waits_for_an_answer_that_takes_long(
    line: Line, client: CoordinatorClient, said: list[str], tmp_path: Path
) -> None:
    came, may_answer, answered = threading.Event(), threading.Event(), threading.Event()

    def slow(request: httpx.Request) -> httpx.Response:
        came.set()
        may_answer.wait(10)
        answered.set()
        return not_in_force(request)

    follower = following(client, said, tmp_path, beside)
    line.troubles = [slow]
    follower.look([])
    assert came.wait(10)
    follower.look([])
    assert (answered.is_set(), said) == (False, []), "a look ends, and asks no second time, while the first is open"
    may_answer.set()

    def in_force() -> bool:
        follower.look([])
        return desired(client) == 2

    wait_for("what was asked for is in force", in_force, 10)
    assert len(said) == 1


def test_replicas_that_will_own_nothing_are_told_of_once(
    client: CoordinatorClient, application: Application, said: list[str], tmp_path: Path
) -> None:
    tasks = client.topology().stages[0].partitions
    pipeline = Pipeline([Program(f"count-{index}", STAGE, ("true",)) for index in range(tasks + 2)], tmp_path)
    follower = Follower(pipeline, client, {STAGE: tasks}, {}, lambda *_: pytest.fail("nothing is started"), said.append)
    application.scale(tasks + 2)
    application.run(0.2)
    follower.look([])
    follower.look([])
    assert said == [f"count has {tasks} tasks: 2 of {tasks + 2} replicas will own none"]


def test_an_application_survives_a_replica_as_long_as_others_of_its_stage_run(follower: Follower) -> None:
    def states(of_one: str) -> list[ProcessState]:
        return [ProcessState("count-0", "EXITED", 0, 1), ProcessState("count-1", of_one, 7, 1)]

    assert follower.survives("count-0", states("RUNNING"))
    assert not follower.survives("count-0", states("EXITED"))
    assert not follower.survives("coordinator", states("RUNNING"))


def test_replicas_are_started_a_few_at_a_time_so_that_a_request_can_be_taken_back(
    line: Line, client: CoordinatorClient, said: list[str], tmp_path: Path
) -> None:
    line.application.scale(100)
    line.application.run(1.0)
    pipeline = Recording([Program(f"count-{index}", STAGE, ("true",)) for index in range(2)], tmp_path)

    def make(stage: str, name: str) -> Program:
        return Program(name, stage, ("true",))

    follower = Follower(pipeline, client, {STAGE: 2}, {}, make, said.append, at_once)
    follower.look([])
    assert pipeline.added == [f"count-{index}" for index in range(2, 2 + AT_ONCE)]
    line.application.scale(2)
    line.application.run(1.0)
    follower.look([])
    assert len(pipeline.added) == AT_ONCE
