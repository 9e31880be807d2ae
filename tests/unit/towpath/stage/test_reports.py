"""What heartbeats say of state on its way, however it comes, as operators see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from statemgr.changelog.model import RestoreProgress
from statemgr.control.records import Manner, Strategy
from statemgr.errors import RetryableKafkaError
from statemgr.kafka.ports import Message
from statemgr.testing.clock import ManualClock
from statemgr.testing.consumer import FakeConsumer
from statemgr.types import TaskId
from tests.unit.towpath.stage.beside import Beside, Held
from tests.unit.towpath.stage.cluster import STAGE, TASKS, Cluster, rows_of
from towpath.coordinator.statuses import MigrationStatus
from towpath.coordinator.views import migration_statuses, task_status
from towpath.stage.lags import Lag, total_lag
from towpath.stage.phases import Phase
from towpath.stage.reading import Readings

ROWS = 400
TASK, OTHER = TaskId(STAGE, 0), TaskId(STAGE, 1)


def at_work(manner: Manner, rebuild: Held | None = None) -> Cluster:
    """One replica has counted all rows."""
    cluster = Cluster(manner, rebuild=rebuild or Held())
    cluster.add("a")
    cluster.settle()
    cluster.write(rows_of(range(ROWS)))
    cluster.rest()
    return cluster


def shown(cluster: Cluster) -> list[MigrationStatus]:
    with cluster.coordinator.look() as facts:
        return migration_statuses(facts)


def seen_while(cluster: Cluster, until: Callable[[], bool]) -> list[MigrationStatus]:
    """All that is shown meanwhile."""
    seen: list[MigrationStatus] = []

    def look() -> bool:
        seen.extend(shown(cluster))
        return until()

    cluster.until("it is so", look)
    return seen


def bins_of(seen: list[MigrationStatus], step: str, partition: int) -> list[int]:
    """How many bins were there, each time that it was told anew."""
    said = [
        each.progress["bins_done"]
        for each in seen
        if each.step == step and each.partition == partition and each.progress and "bins_done" in each.progress
    ]
    return sorted(set(said))


# --- copies ---


@pytest.mark.slow
def test_a_precopy_is_seen_coming_before_the_move_is_logged() -> None:
    cluster = at_work(Manner(strategy=Strategy.PRECOPY, bins=16))
    cluster.add("b")
    seen = seen_while(cluster, lambda: "b" in cluster.owners().values())
    partition = next(partition for partition, owner in cluster.owners().items() if owner == "b")
    assert len(bins_of(seen, "prepare", partition)) > 3


@pytest.mark.slow
def test_standby_copies_are_seen_coming_without_any_move_and_no_more_once_they_are_there() -> None:
    cluster = at_work(Manner(strategy=Strategy.STANDBY, bins=16))
    cluster.add("b")
    seen = seen_while(cluster, lambda: cluster.settled() and "b" in cluster.owners().values())
    seen += seen_while(cluster, lambda: not any(each.active for each in shown(cluster)))
    copied = {each.partition for each in seen if each.step == "copy"}
    assert copied
    assert all(len(bins_of(seen, "copy", partition)) > 3 for partition in copied)


def test_what_a_copy_waits_for_and_is_stuck_in_is_passed_on() -> None:
    beside, manner = Beside(), Manner(strategy=Strategy.PRECOPY, bins=16)
    beside.preparations.heed([beside.hint(0, manner)])
    (report,) = beside.preparations.reports()
    assert report.migration == {"phase": "asking its owner", "elapsed_s": 0.0}
    beside.wait()
    beside.cluster.cut.add("a")
    for _ in range(150):
        beside.cluster.kafka.fail_next("bounds", RetryableKafkaError("no leader"), client="b-scratch")
        beside.preparations.heed([beside.hint(0, manner)])
        beside.wait(0.25)
    (report,) = beside.preparations.reports()
    assert report.migration is not None
    assert "has not moved for" in report.migration["stalled"]
    assert report.migration["elapsed_s"] > 30


# --- the changelog ---


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], Any]], None]:
    """Restores take ten records at a time from now on; before each time something is done."""
    consume = FakeConsumer.consume

    def begin(reader: str, between: Callable[[], Any]) -> None:
        def slowly(self: FakeConsumer, max_records: int, timeout_s: float) -> list[Message]:
            if self.name != reader:
                return consume(self, max_records, timeout_s)
            between()
            return consume(self, 10, timeout_s)

        monkeypatch.setattr(FakeConsumer, "consume", slowly)

    return begin


@pytest.mark.parametrize("strategy", [Strategy.REPLAY, Strategy.RESTART])
def test_a_restore_is_seen_coming_task_by_task(strategy: Strategy, small_batches: Any) -> None:
    cluster = at_work(Manner(strategy=strategy))
    newcomer = cluster.add("b")
    seen: list[MigrationStatus] = []

    def beat() -> None:
        newcomer.coordinated._say(newcomer.replica.owned, Phase.RUNNING, at_once=True)
        assert newcomer.link.beat is not None
        cluster.coordinator.heartbeat(STAGE, "b", newcomer.link.beat)
        seen.extend(each for each in shown(cluster) if each.target == "b" and each.progress)

    small_batches("b-restore", beat)
    cluster.until("b runs tasks", lambda: "b" in cluster.owners().values())
    for partition in {each.partition for each in seen}:
        said = [each.progress for each in seen if each.partition == partition and each.progress]
        records = [each["records"] for each in said if "records" in each]
        assert said[0] == {"phase": "reading the changelog"}
        assert records == sorted(records)
        assert 0 <= records[0] < ROWS / TASKS <= records[-1] < 2 * ROWS / TASKS
        assert all(each["bytes"] > 0 for each in said if each.get("records"))
    assert len({each.partition for each in seen}) == TASKS / 2
    cluster.assert_exact()


@pytest.mark.slow
def test_a_scratch_base_is_seen_coming(small_batches: Any) -> None:
    """While it is made nothing else of the task's state moves."""
    rebuild = Held()
    cluster = at_work(Manner(strategy=Strategy.LAZY), rebuild)
    cluster.add("b")
    cluster.until("b runs tasks", lambda: "b" in cluster.owners().values())
    partition = next(partition for partition, owner in cluster.owners().items() if owner == "b")
    rebuild.holds = True
    cluster.cut.add("a")
    cluster.write(rows_of(range(ROWS)))
    cluster.until("scratch bases are wanted", lambda: bool(rebuild.waiting))
    said: list[dict[str, Any]] = []
    small_batches("b-scratch", lambda: said.append(cluster.progress(partition)))
    rebuild.run()
    records = [each["records"] for each in said if "records" in each]
    assert len(set(records)) > 3
    assert {each["phase"] for each in said} == {"making a scratch base from the changelog"}
    assert "records" not in cluster.progress(partition)


# --- the input ---


@pytest.mark.slow
def test_the_lag_of_a_task_is_seen_and_goes_down_to_nothing(small_batches: Any) -> None:
    cluster = at_work(Manner())
    small_batches("a", lambda: None)
    cluster.write(rows_of([0] * 400))
    lags: list[int | None] = []

    def look() -> bool:
        with cluster.coordinator.look() as facts:
            lags.append(task_status(facts, TASK).lag)
        return lags[-1] == 0 and len(set(lags)) > 1

    cluster.until("the input is read", look)
    lags = lags[lags.index(max(lag or 0 for lag in lags)) :]
    assert len(set(lags)) > 2
    assert lags == sorted(lags, key=lambda lag: -(lag or 0))


def test_the_lag_of_a_task_with_an_input_of_which_nothing_is_known_is_unknown() -> None:
    known = [[], [Lag(1, 3), Lag(2, 2)], [Lag(1, 1), None]]
    assert [total_lag(lags) for lags in known] == [Lag(0, 0), Lag(3, 5), None]


# --- by itself ---


def test_of_several_tasks_that_are_restored_together_each_is_known_by_itself() -> None:
    clock = ManualClock()
    readings = Readings(clock)
    with readings.follow({TASK: 2, OTHER: 3}) as told:
        assert readings.of(TASK, 2) == {"phase": "reading the changelog"}
        clock.advance(2.0)
        each = {TASK: RestoreProgress(10, 100, 5), OTHER: RestoreProgress(20, 400, 0)}
        told(RestoreProgress(30, 500, 5, each))
        assert readings.of(TASK, 2) == {
            "phase": "reading the changelog", "records": 10, "remaining": 5, "bytes": 100, "rate": 50.0,
        }  # fmt: skip
        assert (readings.of(OTHER, 3)["records"], readings.of(OTHER, 3)["rate"]) == (20, 200.0)
        assert readings.of(OTHER, 2) == {}
    assert readings.of(TASK, 2) == {}


def test_one_that_ends_late_leaves_its_successor_alone() -> None:
    """A scratch base of a copy is still being given up when the task comes."""
    readings = Readings(ManualClock())
    late = readings.follow({TASK: 2})
    late.__enter__()
    with readings.follow({TASK: 2}) as told:
        told(RestoreProgress(10, 100, 5))
        late.__exit__(None, None, None)
        assert readings.of(TASK, 2)["records"] == 10
    assert readings.of(TASK, 2) == {}


def test_what_fails_is_not_read_any_more() -> None:
    readings = Readings(ManualClock())
    with pytest.raises(OSError, match="no"), readings.follow({TASK: 2}):
        raise OSError("no")
    assert readings.of(TASK, 2) == {}
