"""The coordinator with a real broker: fences that are felt, and the process as it is run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from statemgr.clock import SystemClock
from statemgr.control.log import ControlReader
from statemgr.control.records import Released, control_key, encode_control
from statemgr.errors import ProducerLostError
from statemgr.kafka.confluent import ConfluentKafka
from statemgr.kafka.ports import TopicSpec
from statemgr.kafka.producer import ConfluentProducer
from statemgr.layout import control_topic, transactional_id
from statemgr.types import TaskId
from tests.harness.waiting import wait_for
from towpath.broker import LocalBroker
from towpath.coordinator.client import CoordinatorClient
from towpath.coordinator.coordinator import Coordinator
from towpath.coordinator.errors import CoordinatorError
from towpath.coordinator.facts import StageFacts
from towpath.coordinator.fencer import Fencer
from towpath.coordinator.limits import Limits
from towpath.coordinator.messages import Heartbeat
from towpath.coordinator.topics import prepare_control_topic

pytestmark = [pytest.mark.broker, pytest.mark.slow]

STAGE = "count"
LIMIT_S = 20.0
FENCE_LIMIT_S = 0.4
"""One instance alone takes 0.5 s with an open transaction (R17)."""


@pytest.fixture
def kafka(broker: LocalBroker) -> ConfluentKafka:
    return ConfluentKafka(broker.bootstrap)


@pytest.fixture
def app(kafka: ConfluentKafka, unique_name: Callable[[str], str]) -> str:
    name = unique_name("co")
    prepare_control_topic(kafka.admin(), name, 1)
    kafka.admin().create([TopicSpec(f"{name}.out", 1)], 1, LIMIT_S)
    return name


def replica_producer(kafka: ConfluentKafka, app: str, replica: str) -> ConfluentProducer:
    producer = kafka.producer(transactional_id=transactional_id(app, STAGE, replica), name=replica)
    producer.init_transactions(LIMIT_S)
    return producer


def open_transaction(producer: ConfluentProducer, app: str) -> None:
    producer.begin()
    producer.produce(f"{app}.out", 0, b"key", b"value")
    producer.flush(LIMIT_S)


def test_a_fence_ends_an_open_transaction_within_its_time(kafka: ConfluentKafka, app: str) -> None:
    took_s = []
    for attempt in range(3):
        replica = f"count-{attempt}"
        owner = replica_producer(kafka, app, replica)
        open_transaction(owner, app)
        took_s.append(Fencer(kafka, app, "fence").fence(STAGE, replica))
        with pytest.raises(ProducerLostError):
            owner.commit(LIMIT_S)
    assert min(took_s) < FENCE_LIMIT_S, took_s


def test_a_replica_that_comes_back_after_its_fence_is_not_concerned(kafka: ConfluentKafka, app: str) -> None:
    replica_producer(kafka, app, "count-0")
    Fencer(kafka, app, "fence").fence(STAGE, "count-0")
    owner = replica_producer(kafka, app, "count-0")
    open_transaction(owner, app)
    owner.commit(LIMIT_S)


class Life:
    """A coordinator and two replicas of which the test says what they do."""

    def __init__(self, kafka: ConfluentKafka, app: str) -> None:
        self.kafka = kafka
        self.app = app
        self.coordinator = self.make("first")
        self.silent: set[str] = set()
        self._reader = ControlReader(kafka, app, "tests")

    def make(self, name: str) -> Coordinator:
        stages = [StageFacts(STAGE, 2, stateful=True)]
        limits = Limits(silence_s=1.0, absent_s=1.0, gather_s=0.3, standby_s=0.5)
        coordinator = Coordinator(self.app, stages, self.kafka, SystemClock(), name=name, limits=limits)
        coordinator.start()
        return coordinator

    def turn(self) -> None:
        for name in {"count-0", "count-1"} - self.silent:
            beat = Heartbeat(incarnation=name, control_offset=self._reader.view.next_offset)
            self.coordinator.heartbeat(STAGE, name, beat)
        self.coordinator.tick()
        self._reader.poll(0.02)

    def until(self, what: str, look: Callable[[], bool]) -> None:
        def turn_and_look() -> bool:
            self.turn()
            return look()

        wait_for(what, turn_and_look, LIMIT_S, lambda: f"{self._reader.view.tasks} {self.coordinator.problem}")

    @property
    def owners(self) -> list[str | None]:
        return [self._reader.view.of(TaskId(STAGE, partition)).owner for partition in range(2)]

    def may_start(self, partition: int, replica: str) -> bool:
        return self._reader.view.may_start(TaskId(STAGE, partition), replica)

    def close(self) -> None:
        self.coordinator.close()
        self._reader.close()


@pytest.fixture
def life(kafka: ConfluentKafka, app: str) -> Iterator[Life]:
    made = Life(kafka, app)
    made.until("both own a task", lambda: sorted(map(str, made.owners)) == ["count-0", "count-1"])
    yield made
    made.close()


def test_a_stopped_replica_with_an_open_transaction_is_fenced_and_replaced(life: Life) -> None:
    """It has written to the control log, too, so nobody could read on there before its end (R18)."""
    lost, heir = life.owners.index("count-0"), "count-1"
    owner = replica_producer(life.kafka, life.app, "count-0")
    open_transaction(owner, life.app)
    record = Released(STAGE, lost, 1, "count-0", started=True, offset=0, progress=None)
    owner.produce(control_topic(life.app), 0, control_key(record), encode_control(record))
    owner.flush(LIMIT_S)
    life.silent.add("count-0")
    began_s = time.monotonic()
    life.until("the other may start its task", lambda: life.may_start(lost, heir))
    assert time.monotonic() - began_s < 6.0, "the transaction's own time-out is 10 s"
    with pytest.raises(ProducerLostError):
        owner.commit(LIMIT_S)


def test_a_newer_coordinator_fences_the_older(life: Life) -> None:
    older = life.coordinator
    life.coordinator = life.make("second")
    life.silent.add("count-0")
    life.until("the newer decides", lambda: life.owners == ["count-1", "count-1"])
    older.died(STAGE, "count-1")
    older.heartbeat(STAGE, "count-0", Heartbeat(incarnation="x", control_offset=10_000))
    wait_for("the older stands down", lambda: (older.tick(), not older.leading)[1], LIMIT_S)
    older.close()


def test_the_process_serves_until_it_is_told_to_stop(
    kafka: ConfluentKafka, broker: LocalBroker, tmp_path: Path, unique_name: Callable[[str], str]
) -> None:
    module = unique_name("query").replace("-", "_")
    source = unique_name("bids")
    (tmp_path / f"{module}.py").write_text(
        "import polars as pl\nfrom towpath import Query\n"
        f'query = Query("{module}", partitions=4)\n'
        f'bids = query.source("{source}", schema={{"auction": pl.Int64}})\n'
        f'bids.key_by("auction").stage("count").count().sink("{source}-counts", key="auction")\n'
    )
    kafka.admin().create([TopicSpec(source, 4)], 1, LIMIT_S)
    command = [sys.executable, "-m", "towpath.cli", "coordinator", module, "--bootstrap", broker.bootstrap]
    log = tmp_path / "log"
    with log.open("wb") as output, subprocess.Popen(
        [*command, "--http-port", "0", "--name", "only"], cwd=tmp_path, stderr=output, env={**os.environ}
    ) as process:  # fmt: skip
        try:
            port = wait_for("it listens", lambda: _port(log), LIMIT_S, log.read_text)
            with CoordinatorClient(f"http://127.0.0.1:{port}") as client:
                wait_for("it leads", lambda: _leads(client), LIMIT_S, log.read_text)
                topology = client.topology()
            assert [(stage.stage, stage.partitions) for stage in topology.stages][-1] == ("count", 4)
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0, log.read_text()
        finally:
            process.kill()


def _port(log: Path) -> int | None:
    for line in log.read_text().splitlines():
        if "http=http://127.0.0.1:" in line:
            return int(line.partition("http=http://127.0.0.1:")[2].split()[0])
    return None


def _leads(client: CoordinatorClient) -> bool:
    try:
        return client.health().leading
    except CoordinatorError:
        return False
