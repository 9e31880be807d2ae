"""What is wrong with the settings is said in one line, with exit status 2; what is wrong with Kafka with status 1."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping

import pytest

from tests.harness.commands import Ended, run_all
from tests.harness.load import create_topic
from tests.harness.processes import REPOSITORY

pytestmark = pytest.mark.slow

NOTHING_LISTENS = "127.0.0.1:1"
COUNT = ("queries.key_count", "--stage", "count")
ORDERS = ("tests.harness.orders", "--stage", "source", "--set", "app=orders")
WRONG = {
    "stage": (("queries.key_count", "--stage", "cuont"), ("no stage 'cuont'", "source, count")),
    "query": (("queries.key_cuont", "--stage", "count"), ("no module 'queries.key_cuont'", "queries.key_count")),
    "value of a query": ((*COUNT, "--set", "emit=never"), ("emit", "never")),
    "setting of a query": ((*COUNT, "--set", "emits=each"), ("no setting 'emits'", "emit")),
    "index": ((*COUNT, "--replica-index", "2", "--replica-count", "2"), ("replica index 2", "0 … 1")),
    "negative index": ((*COUNT, "--replica-index", "-1"), ("replica_index", "greater than or equal to 0")),
    "option": ((*COUNT, "-o", "wait=2"), ("wait", "no such setting; did you mean 'wait_s'?")),
    "number": ((*COUNT, "-o", "wait_s=soon"), ("wait_s", "number")),
    "pair": ((*COUNT, "-o", "wait_s"), ("--option 'wait_s'", "name=value")),
    "guarantee": ((*COUNT, "--guarantee", "twice"), ("guarantee", "exactly-once")),
    "registry": (ORDERS, ("orders-orders is in avro", "schema_registry_url")),
    "registry's URL": ((*ORDERS, "-o", "schema_registry_url=here:8081"), ("schema_registry_url", "no URL of a server")),
    "secret": ((*COUNT, "-o", "schema_registry_auth=me:pw"), ("is a secret", "TOWPATH_SCHEMA_REGISTRY_AUTH")),
}
WRONG_PROPERTIES = {
    "missing": (None, ("can't be read", "No such file")),
    "no pair": (b"security.protocol", ("line 1", "key=value")),
    "no text": (b"\xff\xfe=1", ("can't be read", "UTF-8")),
    "fixed": (b"isolation.level=read_uncommitted", ("isolation.level", "fixed")),
    "unknown": (b"securty.protocol=ssl", ("securty.protocol", "kafka.properties")),
    "bad value": (b"ssl.ca.location=/nowhere/ca.pem\nsecurity.protocol=ssl", ("ca.location", "kafka.properties")),
}


def require_one_line(ended: Ended, status: int, *parts: str) -> None:
    assert "Traceback" not in ended.said, ended.said
    assert ended.status == status, ended.said
    errors = [line for line in ended.said.splitlines() if line.startswith("error:") or "[error" in line]
    assert len(errors) == 1, ended.said
    for part in parts:
        assert part in errors[0], ended.said


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Ended]]:
    """All wrong command lines, run by one process."""
    lines = {name: arguments for name, (arguments, _) in WRONG.items()}
    for name, (content, _) in WRONG_PROPERTIES.items():
        properties = tmp_path_factory.mktemp("properties") / "kafka.properties"
        if content is not None:
            properties.write_bytes(content)
        lines[f"properties {name}"] = (*COUNT, "--kafka-config", str(properties))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        lines["port"] = (*COUNT, "--http-port", str(taken.getsockname()[1]))
        lines["no broker"] = (*COUNT, "-o", "wait_s=1")
        commands = [("stage", *line, "--bootstrap", NOTHING_LISTENS) for line in lines.values()]
        results = run_all(commands, str(REPOSITORY))
    return dict(zip(lines, results, strict=True))


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_setting_is_one_line_and_status_2(ended, name):
    require_one_line(ended[name], 2, *WRONG[name][1])


@pytest.mark.parametrize("name", WRONG_PROPERTIES)
def test_wrong_kafka_properties_are_one_line_and_status_2(ended, name):
    require_one_line(ended[f"properties {name}"], 2, *WRONG_PROPERTIES[name][1])


def test_a_taken_port_is_one_line_and_status_2(ended):
    require_one_line(ended["port"], 2, "127.0.0.1:", "--http-port")


def test_a_broker_that_is_not_there_is_named_within_the_wait(ended):
    require_one_line(ended["no broker"], 1, NOTHING_LISTENS, "check that a broker runs there")


def test_missing_and_mismatched_topics_are_named_with_the_remedy(broker, unique_name, tmp_path):
    missing, mismatched = unique_name("missing"), unique_name("mismatched")
    create_topic(broker.bootstrap, f"{mismatched}-events", 4)
    create_topic(broker.bootstrap, f"{mismatched}.count.changelog", 3)
    common = ("--bootstrap", broker.bootstrap, "--state-dir", str(tmp_path / "state"), "-o", "wait_s=1")
    source, count = run_all(
        [
            ("stage", "tests.harness.bid_counts", "--stage", "source", "--set", f"app={missing}", *common),
            ("stage", "tests.harness.bid_counts", "--stage", "count", "--set", f"app={mismatched}", *common),
        ],
        str(REPOSITORY),
    )
    require_one_line(source, 1, f"source topic {missing}-events does not exist", "create it first")
    require_one_line(count, 1, f"{mismatched}.count.changelog", "3", "4")
