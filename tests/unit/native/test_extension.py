"""Where the extension can't be used, there is a reason; where it can, clients' handles are librdkafka's."""

from __future__ import annotations

import importlib
import subprocess
import sys
import time
from importlib import metadata

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, cimpl

from towpath_native import WHY_NOT, extension
from towpath_native.fetcher import Fetcher
from towpath_native.publisher import Publisher
from towpath_native.strings import Strings

native = pytest.mark.skipif(WHY_NOT is not None, reason=f"no extension: {WHY_NOT}")

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}

WITHOUT = """
import polars as pl
import towpath_native, towpath_native.fetcher, towpath_native.publisher, towpath_native.strings
from towpath.operators.json_decode import JsonDecoder
from towpath_native.cells import Cells

print(towpath_native.WHY_NOT)
print(JsonDecoder({"a": pl.Int64}).decode(Cells.of([b'{"a":1}', b"{"])).frame.rows())
"""


@pytest.fixture
def consumer():
    consumer = Consumer({**NOWHERE, "group.id": "g"})
    yield consumer
    consumer.close()


@pytest.mark.parametrize("off", ["off", "OFF", "0", "no", "false"])
def test_it_can_be_switched_off(monkeypatch, off):
    monkeypatch.setenv("TOWPATH_NATIVE", off)
    assert extension._load() == (None, "TOWPATH_NATIVE is off")


@pytest.mark.parametrize("version", ["2.15.0", "2.17.0", "2.160.0", "3.0.0"])
def test_a_client_that_is_not_known_is_left_alone(monkeypatch, version):
    monkeypatch.delenv("TOWPATH_NATIVE", raising=False)
    monkeypatch.setattr(metadata, "version", lambda name: version)
    assert extension._load() == (None, f"confluent-kafka {version} is not known to this release")


def test_a_package_built_without_a_compiler_says_what_to_do(monkeypatch):
    def missing(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.delenv("TOWPATH_NATIVE", raising=False)
    monkeypatch.setattr(importlib, "import_module", missing)
    found, reason = extension._load()
    assert found is None
    assert "towpath_native._native" in reason
    assert "install a C compiler, and this package anew" in reason


@native
def test_a_client_whose_functions_can_not_be_found_is_left_alone(monkeypatch):
    monkeypatch.setattr(cimpl, "__file__", "/nowhere/cimpl.so")
    assert extension._load() == (None, "confluent-kafka's client lacks the extension itself")
    monkeypatch.undo()
    assert extension._load() == (extension.NATIVE, None)


@pytest.mark.slow
def test_everything_works_without_it():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT],
        env={"TOWPATH_NATIVE": "off"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.splitlines() == ["TOWPATH_NATIVE is off", "[(1,)]"]


@native
def test_a_client_is_found_by_its_handle(consumer):
    def name_of(client: object) -> str:
        return extension.NATIVE.ffi.string(extension.NATIVE.lib.tn_client_name(extension.handle_of(client))).decode()

    assert name_of(consumer).startswith("rdkafka#consumer-")
    assert name_of(Producer({**NOWHERE, "client.id": "mine"})).startswith("mine#producer-")


@native
def test_what_is_no_client_or_is_closed_has_no_handle():
    with pytest.raises(TypeError, match="int is no client of confluent-kafka"):
        extension.handle_of(5)
    closed = Consumer({**NOWHERE, "group.id": "g"})
    closed.close()
    with pytest.raises(TypeError, match="the client is closed"):
        extension.handle_of(closed)


@native
def test_a_fetch_of_nothing_gives_no_records(consumer):
    fetcher = Fetcher(consumer)
    records, _ = fetcher.fetch(10, 0)
    fetcher.close()
    fetcher.close()
    assert len(records) == 0
    assert list(records.value) == list(records.key) == list(records) == []


@native
@pytest.mark.parametrize("settings", [{}, {"error_cb": lambda error: None}], ids=["alone", "with-callback"])
def test_errors_from_before_it_took_over_and_later_ones_come_as_faults(settings):
    consumer = Consumer({**NOWHERE, "group.id": "g", **settings})
    with pytest.raises(KafkaException):
        consumer.list_topics(timeout=0.3)
    fetcher = Fetcher(consumer)
    _, early = fetcher.fetch(10, 0)
    assert "Connection refused" in early[0].text
    found, deadline = [], time.monotonic() + 30
    while not found and time.monotonic() < deadline:
        _, found = fetcher.fetch(10, 0.05)
    assert found
    fetcher.close()
    consumer.close()


@native
def test_records_that_find_no_room_are_named():
    publisher = Publisher(Producer({**NOWHERE, "queue.buffering.max.messages": 5}))
    assert publisher.publish("t", 0, Strings.of([b"k", None, b""]), Strings.of([b"v", None, b""])) is None
    errors = publisher.publish("t", 0, None, Strings.of([b"v"] * 4))
    assert errors.tolist() == [0, 0, -184, -184]


@native
def test_as_many_keys_as_values():
    with pytest.raises(ValueError, match="1 keys for 2 values"):
        Publisher(Producer(NOWHERE)).publish("t", 0, Strings.of([b"k"]), Strings.of([b"v"] * 2))
