"""What the stages did lately, by their replicas' words."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from tests.unit.towpath.coordinator.application import STAGE, Application
from towpath.coordinator.history import KEPT_S, LATENCY_S, POINT_S, History
from towpath.coordinator.http import application as http_application
from towpath.coordinator.messages import Heartbeat, ReplicaFigures
from towpath.distributions import BOUNDS_S

BUCKETS = len(BOUNDS_S) + 1


def buckets(**counts: int) -> list[int]:
    """``b3=5``: five in the fourth bucket."""
    found = [0] * BUCKETS
    for name, count in counts.items():
        found[int(name[1:])] = count
    return found


def beat(life: str = "1", **figures: object) -> Heartbeat:
    said = {"stage_latency": buckets(), "end_to_end": buckets(), **figures}
    return Heartbeat(incarnation=life, figures=ReplicaFigures.model_validate(said))


@pytest.fixture
def application() -> Application:
    made = Application()
    made.add("count-0")
    made.settle()
    return made


class Clocked:
    """A history, and the seconds that pass in it."""

    def __init__(self, application: Application) -> None:
        self.history = History([STAGE])
        self._application = application
        self.second()

    def second(self) -> None:
        self._application.clock.advance(POINT_S)
        with self._application.heard_by.look() as facts:
            self.history.look(facts, self._application.clock.wall_ms())

    def last(self):
        (stage,) = self.history.since(0)
        return stage.points[-1]


@pytest.fixture
def clocked(application: Application) -> Clocked:
    return Clocked(application)


def test_totals_become_rates_over_all_replicas(clocked: Clocked, application: Application) -> None:
    for name, records in (("count-0", 1000), ("count-1", 50)):
        application.heard_by._memory.fleet.hear(STAGE, name, beat(), application.clock.monotonic_s())
        clocked.history.hear(STAGE, name, beat(records=records, rows=2 * records))
    clocked.second()
    assert (clocked.last().records, clocked.last().rows) == (0, 0)  # what they did before is not of this second
    clocked.history.hear(STAGE, "count-0", beat(records=1300, rows=2600, output_rows=30))
    clocked.history.hear(STAGE, "count-1", beat(records=250, rows=500))
    clocked.second()
    assert (clocked.last().records, clocked.last().rows, clocked.last().output_rows) == (500, 1000, 30)
    clocked.second()
    assert clocked.last().records == 0


def test_a_new_life_of_a_replica_is_not_compared_with_the_one_before(clocked: Clocked) -> None:
    clocked.history.hear(STAGE, "count-0", beat("1", records=5000))
    clocked.history.hear(STAGE, "count-0", beat("2", records=10))
    clocked.history.hear(STAGE, "count-0", beat("2", records=30))
    clocked.second()
    assert clocked.last().records == 20


def test_quantiles_are_of_the_last_ten_seconds(clocked: Clocked) -> None:
    clocked.history.hear(STAGE, "count-0", beat())
    clocked.history.hear(STAGE, "count-0", beat(stage_latency=buckets(b2=90, b9=10)))
    clocked.second()
    assert clocked.last().p50_ms is not None
    assert 10 < clocked.last().p50_ms <= 25
    assert clocked.last().p99_ms is not None
    assert 500 < clocked.last().p99_ms <= 750
    assert clocked.last().end_to_end_p50_ms is None
    for _ in range(int(LATENCY_S / POINT_S)):
        assert clocked.last().p50_ms is not None
        clocked.second()
    assert clocked.last().p50_ms is None


def test_points_are_kept_for_a_quarter_of_an_hour(clocked: Clocked) -> None:
    for _ in range(int(KEPT_S / POINT_S) + 50):
        clocked.second()
    (stage,) = clocked.history.since(0)
    assert len(stage.points) == int(KEPT_S / POINT_S)
    newest = stage.points[-1].at_ms
    assert [point.at_ms for point in clocked.history.since(newest - 2000)[0].points] == [newest - 1000, newest]


@pytest.mark.parametrize(
    "figures",
    [
        {"records": -5},
        {"records": 2**70},
        {"stage_latency": [1, 2, 3]},
        {"end_to_end": [-1] * BUCKETS},
        {"stage_latency": [2**63] * BUCKETS},
    ],
)
def test_nonsense_is_passed_over(clocked: Clocked, figures: dict[str, object]) -> None:
    clocked.history.hear(STAGE, "count-0", beat(records=1))
    clocked.history.hear(STAGE, "count-0", beat(**{"records": 5, **figures}))
    clocked.history.hear(STAGE, "count-0", beat(records=11))
    clocked.second()
    assert clocked.last().records == 10


def test_it_is_asked_for_over_http_and_a_heartbeat_without_figures_is_none(application: Application) -> None:
    http = TestClient(http_application(application.heard_by, application.clock, 30.0))
    application.run(3.0)
    (stage,) = http.get("/history").json()
    assert (stage["stage"], len(stage["points"]) >= 2) == (STAGE, True)
    newest = stage["points"][-1]["at_ms"]
    assert http.get(f"/history?since_ms={newest}").json() == [{"stage": STAGE, "points": []}]
    assert {point["records"] for point in stage["points"]} == {0}


def test_what_replicas_say_reaches_it(application: Application) -> None:
    coordinator = application.heard_by
    coordinator.heartbeat(STAGE, "count-9", beat(records=0))
    coordinator.heartbeat(STAGE, "count-9", beat(records=700))
    application.run(1.2)
    assert max(point.records for point in coordinator.history.since(0)[0].points) > 500
