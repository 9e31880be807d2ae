"""A real broker as a process: started, used, stopped, killed, paused; and the command line."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.harness.waiting import wait_for
from towpath.broker import BrokerRunningError, BrokerStartError, LocalBroker, Started
from towpath.broker.logtail import log_text
from towpath.broker.ports import free_port

pytestmark = [pytest.mark.broker, pytest.mark.slow]

PATIENCE = 120.0
"""Seconds for a command that starts a broker, on a machine that is busy with other tests."""


def create_topic(broker: LocalBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)


def produce(broker: LocalBroker, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0


def consume(broker: LocalBroker, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader", "auto.offset.reset": "error"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        messages = consumer.consume(count, 30)
        assert not [message.error() for message in messages if message.error()]
        return [message.value() for message in messages]
    finally:
        consumer.close()


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "towpath.cli", "broker", *arguments],
        capture_output=True, text=True, timeout=PATIENCE, check=False, env={**os.environ, **environment},
    )  # fmt: skip


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A data directory whose broker is gone after the test."""
    directory = tmp_path / "data, with ü"
    yield directory
    LocalBroker(directory).stop()


def test_a_clean_restart_keeps_data_address_and_quiet_logs(own_broker: LocalBroker) -> None:
    create_topic(own_broker, "kept")
    produce(own_broker, "kept", [b"one", b"two"])
    before = own_broker.bootstrap

    assert own_broker.stop()
    assert own_broker.pid is None
    assert not own_broker.stop()
    assert not own_broker.start().already_running

    assert own_broker.bootstrap == before
    assert consume(own_broker, "kept", 2) == [b"one", b"two"]
    assert (own_broker.data_dir / "jvm.log").read_text() == ""


def test_a_killed_broker_comes_back_with_its_data_and_address(own_broker: LocalBroker) -> None:
    create_topic(own_broker, "kept")
    produce(own_broker, "kept", [b"one"])
    before = own_broker.bootstrap

    own_broker.kill()
    assert own_broker.pid is None
    assert not own_broker.answers()
    own_broker.start()

    assert own_broker.bootstrap == before
    assert consume(own_broker, "kept", 1) == [b"one"]


def test_after_a_crash_every_coordinator_is_loaded_once(own_broker: LocalBroker) -> None:
    """Loaded under the crashed run's leadership too, coordinators were seen to forget commits."""
    for _ in range(3):
        since = own_broker.log.stat().st_size
        own_broker.kill()
        own_broker.start()
        wait_for("all are loaded", lambda since=since: len(loads_of(own_broker, since)) == 2 * 8, PATIENCE)
        loads = loads_of(own_broker, since)
        assert set(loads.values()) == {1}, loads


def loads_of(broker: LocalBroker, since: int) -> Counter[tuple[str, str]]:
    """How often the coordinators were told to load each partition of their topics, by what was logged after `since`."""
    log = log_text(broker.log, since)
    group = re.findall(r"Scheduling loading of metadata from (__consumer_offsets)-(\d+) ", log)
    transaction = re.findall(r"Loading transaction metadata from (__transaction_state)-(\d+) ", log)
    return Counter([*group, *transaction])


def test_the_first_transaction_of_a_fresh_broker_meets_ready_coordinators(data: Path) -> None:
    broker = LocalBroker(data, tied=True)
    broker.start()
    create_topic(broker, "t")
    # The shortest back-off: the client's few tries are over within milliseconds.
    client = {"bootstrap.servers": broker.bootstrap, "retry.backoff.ms": 1}
    consumer = Consumer({**client, "group.id": "g"})
    producer = Producer({**client, "transactional.id": "t"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("t", b"x")
    producer.send_offsets_to_transaction([TopicPartition("t", 0, 1)], consumer.consumer_group_metadata(), 30)
    producer.commit_transaction(30)
    assert consumer.committed([TopicPartition("t", 0)], 30)[0].offset == 1
    consumer.close()


def test_a_paused_broker_exists_but_does_not_answer(own_broker: LocalBroker) -> None:
    own_broker.pause()
    status = command("status", "--data", str(own_broker.data_dir), "--json")
    assert (status.returncode, json.loads(status.stdout)["status"]) == (1, "unresponsive")

    own_broker.resume()
    status = command("status", "--data", str(own_broker.data_dir), "--json")
    assert (status.returncode, json.loads(status.stdout)["status"]) == (0, "running")

    own_broker.pause()
    assert own_broker.stop()
    assert own_broker.pid is None


def test_a_topic_that_nobody_created_does_not_appear(broker: LocalBroker, topic_prefix: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.list_topics(topic_prefix, 10)
    assert topic_prefix not in admin.list_topics(timeout=10).topics


def test_a_running_broker_is_joined_but_not_stopped_by_a_guest(broker: LocalBroker) -> None:
    with LocalBroker(broker.data_dir) as guest:
        assert (guest.pid, guest.bootstrap) == (broker.pid, broker.bootstrap)
        assert guest.start().already_running
    assert broker.answers()


def test_a_running_broker_with_another_port_is_not_what_was_asked_for(broker: LocalBroker) -> None:
    port = free_port()
    with pytest.raises(BrokerRunningError, match=rf"already runs on port \d+, not {port}: stop it first"):
        LocalBroker(broker.data_dir, port).start()


def test_of_two_that_start_the_same_broker_one_starts_it(data: Path) -> None:
    outcomes: list[Started] = []
    threads = [threading.Thread(target=lambda: outcomes.append(LocalBroker(data).start())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    first, second = outcomes
    assert first.pid == second.pid
    assert sorted([first.already_running, second.already_running]) == [False, True]


def test_a_value_that_kafka_refuses_is_shown_with_kafkas_words(data: Path) -> None:
    with pytest.raises(BrokerStartError, match=r"(?s)Invalid value soon for configuration log\.retention\.ms"):
        LocalBroker(data, settings={"log.retention.ms": "soon"}).start()
    assert LocalBroker(data).pid is None


def test_the_command_starts_tells_and_stops(data: Path) -> None:
    port = free_port()
    begin = command("start", "--data", str(data), "--port", str(port), "--set", "num.io.threads=2", "--json")
    assert begin.returncode == 0, begin.stderr
    facts = json.loads(begin.stdout)
    assert (facts["bootstrap"], facts["already_running"]) == (f"127.0.0.1:{port}", False)
    assert "num.io.threads=2" in (data / "server.properties").read_text()

    again = command("start", "--data", str(data))
    assert (again.returncode, again.stdout) == (0, f"broker already runs on 127.0.0.1:{port} (pid {facts['pid']})\n")

    stop = command("stop", "--data", str(data))
    assert (stop.returncode, stop.stdout) == (0, f"broker in {data} stopped\n")
    assert not psutil.pid_exists(facts["pid"])

    status = command("status", "--data", str(data))
    assert (status.returncode, status.stdout) == (3, f"no broker runs in {data}\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_foreground_ends_with_its_signal_and_leaves_no_process(data: Path, number: signal.Signals) -> None:
    with foreground(data) as run:
        broker = LocalBroker(data)
        pid = broker.pid
        assert pid is not None
        run.send_signal(number)
        assert run.wait(PATIENCE) == 0
        assert not psutil.pid_exists(pid)


def test_the_foreground_says_when_its_broker_died(data: Path) -> None:
    with foreground(data) as run:
        LocalBroker(data).kill()
        _, error = run.communicate(timeout=PATIENCE)
        assert run.returncode == 1
        assert error.startswith("error: the broker in ")
        assert "ended by itself: see" in error


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_tied_broker_ends_with_a_killed_starter(data: Path) -> None:
    program = """
        import pathlib, sys, time, towpath.broker
        print(towpath.broker.LocalBroker(pathlib.Path(sys.argv[1]), tied=True).start().pid, flush=True)
        time.sleep(600)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), data], stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout is not None
        process = psutil.Process(int(starter.stdout.readline()))
        starter.kill()
        process.wait(PATIENCE)


def test_the_command_reports_a_missing_java_in_one_line(data: Path, tmp_path: Path) -> None:
    start = command("start", "--data", str(data), PATH=str(tmp_path), JAVA_HOME="")
    assert start.returncode == 2
    assert start.stdout == ""
    assert start.stderr.startswith("error: Java is missing: install a Java 17 (or newer) runtime")
    assert start.stderr.count("\n") == 1


def foreground(data: Path) -> subprocess.Popen[str]:
    """Runs `towpath broker run` and returns once it says that the broker is ready."""
    run = subprocess.Popen(
        [sys.executable, "-m", "towpath.cli", "broker", "run", "--data", str(data)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert run.stdout is not None
    assert run.stdout.readline().startswith("broker ready on 127.0.0.1:")
    return run
