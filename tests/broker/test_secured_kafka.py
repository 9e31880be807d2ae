"""Every client on a broker that demands TLS, a certificate, a password and rights: each has just those of the docs.

The pipeline runs with tokens besides. No password and no token is in anything that anybody has said.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from nexmark import GeneratorConfig, generate_json
from statemgr.kafka.properties import read_properties
from tests.harness.pods import free_port
from tests.harness.processes import REPOSITORY, LoggedProcess
from tests.harness.secured_broker import SecuredBroker, group, refusals, together, topic, topics, transactions
from tests.harness.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

APP, QUERY, SOURCE, SINK = "key_count", "queries.key_count", "nexmark-events", "key-count"
EVENTS = 2_000
LIMIT_S = 120.0
LOOK_AT = "DESCRIBE DESCRIBE_CONFIGS"
USERS = ("coordinator", "stage", "topics", "spark", "load", "stranger")
PASSWORDS = {user: f"hunter2-{user}=a;b" for user in USERS}
TOKEN = "hunter2-token-0123456789"

EVERYBODY = group("towpath-", "DESCRIBE")
RIGHTS = {
    "coordinator": together(
        topic(f"{APP}.control", f"READ WRITE CREATE {LOOK_AT}"), topic(SOURCE, LOOK_AT), transactions(f"{APP}.")
    ),
    "stage": together(
        topic(SOURCE, f"READ {LOOK_AT}"),
        topic(SINK, f"READ WRITE CREATE {LOOK_AT}"),
        topics(f"{APP}.", f"READ WRITE CREATE {LOOK_AT}"),
        transactions(f"{APP}."),
        group(f"{APP}."),
    ),
    "topics": together(
        topic(SOURCE, f"CREATE {LOOK_AT}"), topic(SINK, f"CREATE {LOOK_AT}"), topics(f"{APP}.", f"CREATE {LOOK_AT}")
    ),
    "spark": together(topic(SOURCE, f"READ {LOOK_AT}"), topic("q2", LOOK_AT), group("spark-kafka-")),
    "load": together(topic(SOURCE, f"READ WRITE {LOOK_AT}"), topic(SINK, f"READ {LOOK_AT}"), group("spark-kafka-")),
}
"""As docs/security.md has them; a pod's state manager goes by the file of its stage."""


def program(name: str) -> list[str]:
    """How a program is called: by its module, or by the script beside the interpreter."""
    script = Path(sys.executable).with_name(name)
    return [str(script)] if script.exists() else [sys.executable, "-m", name]


@dataclass
class Place:
    """A broker, and all that was said around it."""

    broker: SecuredBroker
    directory: Path
    environment: dict[str, str]
    said: list[str]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """A command that ends by itself."""
        done = subprocess.run(
            [*(program(command[0])), *command[1:]],
            cwd=REPOSITORY,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        self.said += [done.stdout, done.stderr]
        return done

    def ok(self, *command: str) -> str:
        """What a command printed that went well."""
        done = self.run(*command)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}\n{self.refusals()}"
        return done.stdout

    def refusals(self) -> str:
        return "\n".join(refusals(self.broker.log)[-10:])

    def kafka(self, user: str) -> tuple[str, ...]:
        return ("--bootstrap", self.broker.bootstrap, "--kafka-config", str(self.broker.client(user)))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("secured")
    broker = SecuredBroker(directory / "broker", PASSWORDS)
    (directory / "token").write_text(TOKEN)
    environment = {**os.environ, "TOWPATH_TOKEN_FILE": str(directory / "token")}
    try:
        broker.start()
        for user, rights in RIGHTS.items():
            broker.allow(user, together(rights, EVERYBODY))
        yield Place(broker, directory, environment, [])
    finally:
        broker.stop()


class Service(LoggedProcess):
    """A process of the pipeline."""

    def __init__(self, name: str, place: Place, *command: str) -> None:
        line = (sys.executable, "-m", "towpath.cli", *command, "--die-with-parent")
        super().__init__(name, line, place.directory / f"{name}.log")


@pytest.fixture
def services(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Service]]:
    """A pipeline that runs: coordinator and pods, each with the rights of its user, all with the token."""
    monkeypatch.setenv("TOWPATH_TOKEN_FILE", place.environment["TOWPATH_TOKEN_FILE"])
    place.ok("towpath.cli", "topics", QUERY, "--source-partitions", "2", *place.kafka("topics"))
    send(place)
    port = free_port()
    asked = ("coordinator", QUERY, "--http-port", str(port), *place.kafka("coordinator"))
    started = [Service("coordinator", place, *asked)]
    for stage in ("source", "count"):
        named = ("--stage", stage, "--replica", f"{stage}-0", "--state-dir", str(place.directory / "state"))
        where = ("--coordinator", f"http://127.0.0.1:{port}", *place.kafka("stage"))
        started.append(Service(stage, place, "pod", QUERY, *named, *where))
    place.environment["TOWPATH_COORDINATOR"] = f"http://127.0.0.1:{port}"
    try:
        for service in started:
            service.start()
        yield {service.name: service for service in started}
    finally:
        for service in reversed(started):
            if service.alive:
                service.terminate()
        for service in started:
            if service.alive:
                service.wait(LIMIT_S)
            service.close()
            place.said.append(service.log_file.read_text(errors="replace"))


def test_all_clients_work_with_just_the_rights_of_the_docs_and_no_secret_is_told(
    place: Place, services: dict[str, Service]
) -> None:
    wait_for(
        "all bids are counted",
        lambda: counted(place) == bids(),
        LIMIT_S,
        lambda: (
            f"{counted(place)} of {bids()}\n{place.refusals()}\n"
            + "\n".join(service.describe() for service in services.values())
        ),
    )
    tasks = json.loads(place.ok("towpath.cli", "tasks", "--json"))
    assert {task["state"] for task in tasks} == {"running"}
    place.environment["TOWPATH_TOKEN_FILE"] = ""
    stranger = place.run("towpath.cli", "scale", "count=2")
    place.environment["TOWPATH_TOKEN_FILE"] = str(place.directory / "token")
    assert (stranger.returncode, "TOWPATH_TOKEN_FILE" in stranger.stderr) == (2, True)

    spark = ("--engine", "spark", "--batch", "--print", "--master", "local[1]", *place.kafka("spark"))
    rows = [json.loads(line) for line in place.ok("towpath.cli", "run", "queries.q2", *spark).splitlines()]
    assert {row["topic"] for row in rows} == {"q2"}

    checked = ("verify", "key_count", "--sink-topic", SINK, "--json", *place.kafka("load"))
    verdict = json.loads(place.ok("towpath-load", *checked).splitlines()[-1])
    assert (verdict["outputs"]["input_events"], verdict["outputs"]["mismatches"]) == (EVENTS, 0)
    assert refusals(place.broker.log) == []


def test_a_wrong_password_and_missing_rights_are_one_line_without_a_secret(place: Place) -> None:
    wrong = place.broker.client("topics", password="hunter2-wrong")
    server = ("--bootstrap", place.broker.bootstrap, "--wait-s", "10")
    refused = place.run("towpath.cli", "topics", QUERY, *server, "--kafka-config", str(wrong))
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "uthentication" in refused.stderr
    nobody = place.run("towpath.cli", "topics", QUERY, *server, "--kafka-config", str(place.broker.client("stranger")))
    assert (nobody.returncode, nobody.stderr.count("\n")) == (1, 1)
    misspelt = place.directory / "misspelt.properties"
    misspelt.write_text("sasl.pasword=hunter2-misspelt\nsecurity.protocol=hunter2-protocol\n")
    for command in (("towpath.cli", "topics", QUERY), ("towpath.cli", "run", "queries.q2", "--engine", "spark")):
        told = place.run(*command, "--kafka-config", str(misspelt))
        assert (told.returncode, told.stderr.count("\n")) == (2, 1), told.stderr
        assert "sasl.pasword" in told.stderr


def test_nobody_has_said_a_secret(place: Place) -> None:
    """Runs last, over all that was said before."""
    assert place.said
    for text in place.said:
        assert "hunter2" not in text, text[max(0, text.index("hunter2") - 500) :][:1000]


def events() -> list[bytes]:
    lines = generate_json(GeneratorConfig(seed=7), 0, EVENTS, sched_ms=np.arange(EVENTS))
    return [bytes(line) for line in lines.to_pylist()]


def bids() -> int:
    """Number of bids among the events."""
    return sum(json.loads(line)["type"] == "bid" for line in events())


def send(place: Place) -> None:
    """Write the events, as the user of the load."""
    producer = Producer({**read_properties(place.broker.client("load")), "bootstrap.servers": place.broker.bootstrap})
    for number, line in enumerate(events()):
        producer.produce(SOURCE, line, partition=number % 2)
    assert producer.flush(LIMIT_S) == 0


def counted(place: Place) -> int:
    """Sum of the newest counts in the sink; looked at by the listener that asks nobody."""
    reader = Consumer(
        {"bootstrap.servers": place.broker.open, "group.id": "look", "isolation.level": "read_committed",
         "enable.partition.eof": True, "auto.offset.reset": "earliest", "log_level": 0}
    )  # fmt: skip
    newest: dict[bytes, int] = {}
    try:
        partitions = list(reader.list_topics(SINK, timeout=LIMIT_S).topics[SINK].partitions)
        reader.assign([TopicPartition(SINK, partition, 0) for partition in partitions])
        ended = 0
        while ended < len(partitions):
            for message in reader.consume(1000, timeout=1.0):
                if message.error() is not None:
                    ended += 1
                    continue
                key = bytes(message.key() or b"")
                newest[key] = max(newest.get(key, 0), json.loads(message.value() or b"{}")["count"])
    finally:
        reader.close()
    return sum(newest.values())
