"""Running stages over Avro and Protobuf: rows, poison, and a registry that is away, by which nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest

from statemgr.types import TopicPartition
from tests.harness.order_messages import Order
from tests.harness.schema_registry import SchemaRegistry
from tests.unit.towpath.formats.writing import TOPIC, client_of, read_back, record, written
from towpath.errors import RegistryUnavailableError, StageStoppedError
from towpath.query import Query, protobuf, tumbling
from towpath.stage.warm_up import warm_up
from towpath.testing import StageDriver

DEAD = "app.dead-letter"
SCHEMA = {"user": pl.String, "n": pl.Int64}
V1 = record({"user": "string", "n": "int", "at": "long"})
V2 = record({"at": "long", "more": "string", "n": "long", "user": "string"})


@pytest.fixture
def service() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        yield running


def counted() -> Query:
    query = Query("app", partitions=2)
    orders = query.source(TOPIC, schema=SCHEMA, format="avro", emit_time="at").filter(pl.col("n") >= 0)
    orders.key_by("user").stage("count").count(emit="each").sink("counts", key="user", format="avro")
    return query


def running(service: SchemaRegistry, query: Query | None = None, **settings: Any) -> StageDriver:
    return StageDriver(
        query or counted(), partitions={TOPIC: 2}, schema_registry_url=service.url, **{"wait_s": 20.0, **settings}
    )


def orders(service: SchemaRegistry, *users: str, schema: Any = V1) -> list[bytes]:
    rows = [{"user": user, "n": number, "at": 100 + number, "more": "x"} for number, user in enumerate(users)]
    return written(service, schema, *[{name: row[name] for name in _names(schema)} for row in rows])


def _names(schema: Any) -> list[str]:
    return [field["name"] for field in schema["fields"]]


def counts(service: SchemaRegistry, driver: StageDriver) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row in read_back(service, driver.rows("counts"), "counts"):
        found.setdefault(row["user"], []).append(row["count"])
    return found


def turns(driver: StageDriver, number: int = 50) -> None:
    for _ in range(number):
        driver.run_once()
        driver.advance_time(100)


def test_a_query_reads_and_writes_avro_whatever_schema_its_records_have(service: SchemaRegistry) -> None:
    driver = running(service)
    driver.pipe(TOPIC, orders(service, "a", "b", "a"))
    driver.pipe(TOPIC, orders(service, "a", "b", schema=V2))
    driver.run_until_idle()
    assert counts(service, driver) == {"a": [1, 2, 3], "b": [1, 2]}
    rows = read_back(service, driver.rows("counts"), "counts")
    assert {"sched_ms", "sched_newest_ms", "events", "user", "count"} == rows[0].keys()
    assert all(100 <= row["sched_ms"] <= 102 and row["events"] == 1 for row in rows)
    assert driver.state("count", "count") == {b"a": 3, b"b": 2}
    assert [record.key for record in driver.output("counts") if record.key not in (b"a", b"b")] == []


def test_poison_goes_to_the_dead_letter_topic_as_it_came_with_reason_and_offset(service: SchemaRegistry) -> None:
    driver = running(service)
    good = orders(service, "a")[0]
    driver.pipe(TOPIC, [good, b"{}", b"\x00\x00\x00\x01\x00\x02", good, good[:-1]], partition=1)
    driver.run_until_idle()
    assert counts(service, driver) == {"a": [1, 2]}
    letters = {letter.headers["offset"]: letter for letter in driver.output(DEAD)}
    assert {offset: letter.value for offset, letter in letters.items()} == {
        "1": b"{}",
        "2": b"\x00\x00\x00\x01\x00\x02",
        "4": good[:-1],
    }
    assert "no schema id" in letters["1"].headers["reason"]
    assert "has no schema 256" in letters["2"].headers["reason"]
    assert {letter.headers["topic"] for letter in letters.values()} == {TOPIC}


@pytest.mark.parametrize("kind", ["stopped", "broken", "refusing"])
@pytest.mark.parametrize("crash", [False, True])
def test_while_the_registry_is_away_records_wait_in_order_and_none_is_dropped(
    service: SchemaRegistry, kind: str, crash: bool
) -> None:
    driver = running(service)
    driver.pipe(TOPIC, orders(service, "a"), partition=0)
    driver.run_until_idle()
    newer = orders(service, "a", "b", "a", schema=V2)
    if kind == "stopped":
        service.stop()
    service.answer = (503, {"error_code": 50301, "message": "not now"}) if kind == "broken" else (403, b"no")
    driver.pipe(TOPIC, newer, partition=0)
    turns(driver)
    driver.pipe(TOPIC, [b"poison"], partition=0)
    driver.pipe(TOPIC, newer[1:], partition=0)
    turns(driver)
    assert driver.lag("source") == 6
    assert driver.rows(DEAD) == []
    service.answer = None
    if kind == "stopped":
        service.start()
    if crash:
        driver.crash("source")
    driver.run_until_idle()
    assert counts(service, driver) == {"a": [1, 2, 3, 4], "b": [1, 2]}
    assert driver.rows(DEAD) == [b"poison"]
    assert driver.lag("source") == 0


def test_partitions_whose_schemas_are_known_rest_only_while_records_of_theirs_wait(service: SchemaRegistry) -> None:
    driver = running(service)
    known = orders(service, "a", "b")
    driver.pipe(TOPIC, known, partition=0)
    driver.run_until_idle()
    newer = orders(service, "b", schema=V2)
    service.stop()
    driver.pipe(TOPIC, newer, partition=1)
    turns(driver, 5)
    driver.pipe(TOPIC, known, partition=0)
    turns(driver, 5)
    replica = driver.process("source").replica
    assert replica is not None
    assert replica._resting == {TopicPartition(TOPIC, 1)}
    assert len(driver.rows("counts")) == 2 * len(known)
    service.start()
    driver.run_until_idle()
    assert counts(service, driver)["b"] == [1, 2, 3]


def test_windows_wait_for_rows_that_wait_for_their_schema_also_from_a_partition_that_was_idle(
    service: SchemaRegistry,
) -> None:
    query = Query("app", partitions=2)
    schema = {"user": pl.String, "at": pl.Int64}
    rows = query.source(TOPIC, schema=schema, format="avro", event_time="at", lag_ms=10, idle_s=1)
    windows = rows.key_by("user").stage("count").window(tumbling(100), on="at")
    windows.count().sink("counts", key="user", format="avro")
    driver = running(service, query)

    def placed(form: Any, *times: int) -> list[bytes]:
        return written(service, form, *[{"at": at, "more": "", "n": 1, "user": "a"} for at in times])

    def found() -> list[tuple[int, int]]:
        return [(row["window_start"], row["count"]) for row in read_back(service, driver.rows("counts"), "counts")]

    first, newer, later = placed(V1, 100), placed(V2, 110, 120), placed(V1, 390, 400)
    driver.pipe(TOPIC, first, partition=0)
    driver.pipe(TOPIC, first, partition=1)
    turns(driver, 30)  # both partitions are idle now
    service.stop()
    driver.pipe(TOPIC, newer, partition=0)
    turns(driver, 10)
    driver.pipe(TOPIC, later[:1], partition=1)
    turns(driver, 100)
    assert driver.rows("counts") == []
    service.start()
    turns(driver, 40)  # partition 0 is idle again, and holds nothing up any more
    driver.pipe(TOPIC, later[1:], partition=1)
    turns(driver, 20)
    assert found() == [(100, 4)]


def test_a_stage_starts_once_the_registry_is_there_and_says_which_it_waited_for(service: SchemaRegistry) -> None:
    service.stop()
    driver = running(service)
    with pytest.raises(RegistryUnavailableError, match=f"the schema registry at {service.url} does not answer"):
        driver.run_once()
    service.start()
    driver.pipe(TOPIC, orders(service, "a"))
    driver.run_until_idle()
    assert counts(service, driver) == {"a": [1]}


def test_credentials_that_are_refused_stop_the_start_at_once(service: SchemaRegistry) -> None:
    service.user_info = "me:secret"
    driver = running(service, schema_registry_auth="me:wrong")
    began = driver.clock.monotonic_s()
    with pytest.raises(RegistryUnavailableError, match="refuses this client"):
        driver.run_once()
    assert driver.clock.monotonic_s() == began
    running(service, schema_registry_auth="me:secret").run_until_idle()


def test_a_schema_may_have_to_be_registered_by_hand(service: SchemaRegistry) -> None:
    with pytest.raises(StageStoppedError, match=r"counts-value: Subject not found.*schema_registry_register=true"):
        running(service, schema_registry_register=False).run_until_idle()
    running(service).run_until_idle()
    driver = running(service, schema_registry_register=False)
    driver.pipe(TOPIC, orders(service, "a"))
    driver.run_until_idle()
    assert counts(service, driver) == {"a": [1]}


def test_warming_up_asks_no_registry(service: SchemaRegistry) -> None:
    driver = running(service)
    for stage in counted().plan().stages:
        warm_up(stage, driver.process(stage.name).settings)
    assert service.asked == []


def with_a_null(frame: pl.DataFrame) -> pl.DataFrame:
    """A null among the items of customer c, for which a message has no place."""
    null = pl.lit([None], dtype=pl.List(pl.Int32))
    return frame.with_columns(items=pl.when(pl.col("customer") == "c").then(null).otherwise(pl.col("items")))


def test_a_query_reads_and_writes_protobuf_and_rows_that_are_no_messages_are_dead_letters(
    service: SchemaRegistry,
) -> None:
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer

    from tests.unit.towpath.formats.writing import CONTEXT, STRATEGY

    said = protobuf("tests.harness.order_messages:Order")
    query = Query("app", partitions=2)
    rows = query.source(TOPIC, schema={"customer": pl.String, "items": pl.List(pl.Int32)}, format=said)
    rows.map_batches(with_a_null).sink("out", key="customer", format=said)
    driver = running(service, query)
    serialize = ProtobufSerializer(Order, client_of(service), conf=STRATEGY)
    driver.pipe(TOPIC, [serialize(Order(customer=user, items=[1, 2]), CONTEXT) for user in "abc"])
    driver.run_until_idle()
    read = ProtobufDeserializer(Order)
    assert sorted((each.customer, list(each.items)) for each in map(read, driver.rows("out"))) == [
        ("a", [1, 2]),
        ("b", [1, 2]),
    ]
    (letter,) = driver.output(DEAD)
    assert letter.value == b'{"customer":"c","items":[null]}'
    assert letter.headers["reason"].startswith("a row can't be written to out: ")


def test_a_driver_wants_records_of_such_topics_as_bytes(service: SchemaRegistry) -> None:
    with pytest.raises(TypeError, match="topic 'orders' is in avro: give its records as bytes"):
        running(service).pipe(TOPIC, [{"user": "a"}])
