"""Whatever is asked of a coordinator, or stands in its log, it answers and goes on."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance
from starlette.testclient import TestClient

from statemgr.control.records import (
    Assigned,
    ControlRecord,
    Desired,
    Done,
    Fenced,
    Layer,
    Leader,
    Manner,
    Released,
    Strategy,
    Tenure,
    control_key,
    encode_control,
)
from statemgr.layout import control_topic
from statemgr.progress import Progress
from statemgr.testing.clock import ManualClock
from tests.unit.towpath.coordinator.application import APP, STAGE, Application
from towpath.coordinator.http import application as http_application

pytestmark = pytest.mark.slow

EXAMPLES = 30
KNOWN = {"stage": STAGE, "name": "count-0", "replica": "count-1", "partition": 0}
"""What there is, by the names of parameters and fields."""

VIEWS = ("/health", "/metrics", "/migrations", "/replicas", "/tasks", "/topology")


class Hurried(ManualClock):
    """A second goes by whenever somebody looks, so that no request is one too many."""

    def monotonic_s(self) -> float:
        self.advance(1.0)
        return super().monotonic_s()


@pytest.fixture(scope="module")
def application() -> Iterator[Application]:
    """An application whose coordinator turns, as in its process."""
    made = Application()
    made.add("count-0")
    made.add("count-1")
    made.settle()
    over = threading.Event()
    failures: list[Exception] = []

    def turn() -> None:
        while not over.wait(0.001):
            try:
                made.heard_by.tick()
            except Exception as error:  # noqa: BLE001 - of whatever kind
                failures.append(error)
                return

    thread = threading.Thread(target=turn)
    thread.start()
    yield made
    over.set()
    thread.join()
    assert failures == []


@pytest.fixture(scope="module")
def http(application: Application) -> TestClient:
    return TestClient(http_application(application.heard_by, Hurried(), 1e9))


def operations(http: TestClient) -> Iterator[schemathesis.APIOperation]:
    """All that the interface describes."""
    interface = schemathesis.openapi.from_asgi("/openapi.json", http.app)
    for found in interface.get_all_operations():
        yield found.ok()


def test_anything_that_is_asked_gets_an_answer_of_the_interface(http: TestClient) -> None:
    """503 is one: the coordinator may be asked for too much at once."""
    described = list(operations(http))
    assert {operation.label for operation in described} >= {"POST /scale", "POST /holders/{name}", "GET /tasks"}
    answered: defaultdict[str, set[int]] = defaultdict(set)
    for operation in described:
        wrong = operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
        asked = operation.as_strategy() | wrong if operation.method == "post" else operation.as_strategy()

        @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
        @given(case=asked, known=st.booleans())
        def check(case: schemathesis.Case, known: bool) -> None:
            if known:
                case.path_parameters.update({name: KNOWN[name] for name in case.path_parameters})
            if known and isinstance(case.body, dict):
                case.body = case.body | {name: value for name, value in KNOWN.items() if name in case.body}
            answer = case.call()
            answered[case.operation.label].add(answer.status_code)
            assert answer.status_code < 500 or answer.status_code == 503, answer.text
            case.validate_response(answer, checks=[status_code_conformance, response_schema_conformance])
            for view in VIEWS:
                assert http.get(view).status_code == 200, view

        check()
    for label, statuses in answered.items():
        assert 200 in statuses, f"{label} was never asked for anything that makes sense"


# --- the log ---

NAMES = st.sampled_from(["a", "count-0", "count-1", STAGE, ""]) | st.text(max_size=5)
STAGES = st.sampled_from([STAGE, STAGE, "other"])
NUMBERS = st.integers(-1, 6) | st.integers(-(2**63), 2**63 - 1)
MANNERS = st.builds(Manner, st.sampled_from(Strategy))
PROGRESS = st.none() | st.builds(Progress, NUMBERS, st.just({}))
RECORDS: st.SearchStrategy[ControlRecord] = st.one_of(
    st.builds(Leader, NUMBERS, NAMES),
    st.builds(Desired, STAGES, st.none() | NUMBERS, MANNERS, NUMBERS),
    st.builds(
        Assigned,
        STAGES,
        NUMBERS,
        NUMBERS,
        NAMES,
        st.lists(st.builds(Tenure, NAMES, NUMBERS), max_size=2).map(tuple),
        st.lists(st.builds(Layer, NAMES, NUMBERS, NAMES), max_size=3).map(tuple),
        MANNERS,
        NUMBERS,
    ),
    st.builds(Released, STAGES, NUMBERS, NUMBERS, NAMES, st.booleans(), NUMBERS, PROGRESS),
    st.builds(Done, STAGES, NUMBERS, NUMBERS, NAMES),
    st.builds(Fenced, STAGES, NAMES, NUMBERS),
)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(st.lists(RECORDS, min_size=1, max_size=5))
def test_records_that_make_no_sense_are_no_end_of_a_coordinator_nor_of_its_answers(
    records: list[ControlRecord],
) -> None:
    """Whoever may write the log may move tasks as he likes; but not stop the coordinator by a word."""
    application = Application()
    application.add("count-0")
    application.settle()
    writer = application.kafka.producer(transactional_id="somebody", name="somebody")
    writer.init_transactions(1.0)
    writer.begin()
    for record in records:
        writer.produce(control_topic(APP), 0, control_key(record), encode_control(record))
    writer.commit(1.0)
    http = TestClient(http_application(application.heard_by, application.clock, 1e9))
    for _ in range(20):
        application.heard_by.tick()
        application.clock.advance(0.5)
    for view in VIEWS:
        assert http.get(view).status_code == 200, view
