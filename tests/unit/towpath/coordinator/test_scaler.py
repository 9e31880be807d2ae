"""A coordinator that asks a platform for replicas: in memory, with a platform that keeps to a StatefulSet's ways."""

from __future__ import annotations

import threading

import pytest
from structlog.testing import capture_logs

from tests.unit.towpath.coordinator.application import STAGE, Application
from towpath.coordinator.errors import PlatformError
from towpath.coordinator.scaler import IDLE_S, STALE_S, Scaler
from towpath.coordinator.views import stage_status


class StatefulSet:
    """Starts and stops replicas by number, the highest first; a stopped one drains, and then is gone."""

    def __init__(self, application: Application) -> None:
        self.size = 0
        self.refuses = ""
        self.silent = ""
        self.writes: list[int] = []
        self._application = application

    def read(self, stage: str) -> int:
        if self.silent:
            raise PlatformError(self.silent)
        return self.size

    def write(self, stage: str, size: int, replicas: int) -> None:
        if self.refuses or self.silent:
            raise PlatformError(self.refuses or self.silent)
        assert size == self.size, "another number was set"
        self.writes.append(replicas)
        self.scale(replicas)

    def scale(self, replicas: int) -> None:
        """What ``kubectl scale`` does."""
        self.size = replicas
        self.reconcile()

    def reconcile(self) -> None:
        """What its controller does."""
        replicas = self._application.replicas
        for number in range(self.size):
            name = f"{STAGE}-{number}"
            if name not in replicas:
                self._application.add(name)
            elif not replicas[name].alive:
                replicas[name].restart()
        for name, replica in replicas.items():
            if int(name.rpartition("-")[2]) >= self.size and replica.alive:
                replica.draining = True
                if replica.answer is not None and replica.answer.drained:
                    replica.stopped = True
                    replica.beat(self._application.heard_by)
                    replica.die()


class Cluster:
    """Application, StatefulSet and scaler, driven in steps."""

    def __init__(self, size: int) -> None:
        self.application = Application()
        self.statefulset = StatefulSet(self.application)
        self.scaler = Scaler(self.application.heard_by, self.statefulset, self.application.clock)
        self.statefulset.scale(size)
        self.settle()

    def step(self) -> None:
        self.scaler.turn()
        self.application.run(0.5)
        self.statefulset.reconcile()

    def settle(self) -> None:
        """Until nothing is asked for, and as many own tasks as are to run."""
        for _ in range(100):
            self.step()
            if self.settled():
                return
        raise AssertionError(self.application.describe())

    def settled(self) -> bool:
        with self.application.heard_by.look() as facts:
            status, asked = stage_status(facts, facts.stages[STAGE]), facts.asked(STAGE)
        return status.settled and asked is None and len(self.application.working()) == self.statefulset.size

    def waiting_for(self) -> str | None:
        with self.application.heard_by.look() as facts:
            return stage_status(facts, facts.stages[STAGE]).waiting_for


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(1)


def test_more_replicas_come_when_the_coordinator_is_asked_for_them(cluster: Cluster) -> None:
    cluster.application.scale(3)
    cluster.settle()
    assert cluster.statefulset.writes == [3]
    assert cluster.application.counts() == {"count-0": 2, "count-1": 1, "count-2": 1}


def test_fewer_are_asked_for_when_those_that_go_own_nothing_any_more() -> None:
    cluster = Cluster(3)
    cluster.application.scale(1)
    cluster.application.run(0.2)
    while not cluster.statefulset.writes:
        cluster.scaler.turn()
        cluster.application.step()
    assert cluster.application.counts() == {"count-0": 4, "count-1": 0, "count-2": 0}
    cluster.settle()
    assert cluster.statefulset.writes == [1]
    assert cluster.application.owners() == dict.fromkeys(range(4), "count-0")


def test_what_kubectl_sets_needs_no_word_to_the_coordinator(cluster: Cluster) -> None:
    cluster.statefulset.scale(3)
    cluster.settle()
    assert cluster.application.counts() == {"count-0": 2, "count-1": 1, "count-2": 1}
    cluster.statefulset.scale(2)
    cluster.settle()
    assert cluster.application.counts() == {"count-0": 2, "count-1": 2}
    assert cluster.statefulset.writes == []


def test_both_ways_can_be_mixed_and_the_last_word_counts(cluster: Cluster) -> None:
    cluster.application.scale(3)
    cluster.settle()
    cluster.statefulset.scale(2)
    cluster.settle()
    cluster.application.scale(4)
    cluster.settle()
    assert cluster.statefulset.size == 4
    cluster.application.scale(1)
    cluster.step()
    cluster.step()
    cluster.statefulset.scale(3)
    cluster.settle()
    assert cluster.statefulset.size == 3


def test_a_coordinator_that_follows_takes_up_what_was_asked_of_the_former(cluster: Cluster) -> None:
    cluster.statefulset.refuses = "forbidden"
    cluster.application.scale(2)
    cluster.step()
    cluster.scaler = Scaler(cluster.application.coordinate("c2"), cluster.statefulset, cluster.application.clock)
    cluster.statefulset.refuses = ""
    cluster.settle()
    assert cluster.statefulset.size == 2


def test_a_refusal_is_said_once_and_shown_until_it_is_over(cluster: Cluster) -> None:
    cluster.statefulset.refuses = "statefulsets/scale is forbidden"
    with capture_logs() as logs:
        cluster.application.scale(2)
        for _ in range(3):
            cluster.step()
    assert [line["cause"] for line in logs if line["log_level"] == "warning"] == ["statefulsets/scale is forbidden"]
    assert cluster.waiting_for() == "statefulsets/scale is forbidden"
    cluster.statefulset.refuses = ""
    cluster.settle()
    assert cluster.statefulset.size == 2


def test_a_platform_that_is_away_for_long_keeps_no_replica_from_its_tasks(cluster: Cluster) -> None:
    cluster.statefulset.silent = "no answer"
    cluster.statefulset.scale(2)
    cluster.step()
    assert cluster.application.counts() == {"count-0": 4, "count-1": 0}, "it was to run one, by its last word"
    cluster.application.run(STALE_S)
    cluster.settle()
    assert cluster.application.counts() == {"count-0": 2, "count-1": 2}


def test_a_coordinator_that_does_not_lead_asks_for_nothing(cluster: Cluster) -> None:
    former = cluster.application.heard_by
    cluster.application.coordinate("c2")
    cluster.application.run(0.2)
    cluster.application.scale(3)
    cluster.application.run(0.2)
    Scaler(former, cluster.statefulset, cluster.application.clock).turn()
    assert cluster.statefulset.writes == []


def test_the_thread_looks_by_itself_and_hands_on_what_nobody_foresaw(cluster: Cluster) -> None:
    looked = threading.Event()

    class Broken(StatefulSet):
        def read(self, stage: str) -> int:
            looked.set()
            raise ZeroDivisionError

    scaler = Scaler(cluster.application.heard_by, Broken(cluster.application), cluster.application.clock)
    scaler.start()
    assert looked.wait(10 * IDLE_S)
    scaler.close()
    assert isinstance(scaler.failure, ZeroDivisionError)
