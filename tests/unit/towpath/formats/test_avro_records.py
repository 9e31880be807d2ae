"""Avro records of other programs as rows, and rows as Avro records that other programs read."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from confluent_kafka.schema_registry import SchemaReference
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.schema_registry import SchemaRegistry
from tests.unit.towpath.formats.writing import (
    TOPIC,
    decoded,
    decoder,
    only,
    read_back,
    record,
    registry_of,
    shared_registry,
    written,
)
from towpath.formats.avro_encode import AvroEncoder
from towpath.formats.declared import Avro
from towpath.query.plan import EVENTS, PARTITION, SCHED, Edge, Format, OutputPlan

EVERY_TYPE = {
    "i8": pl.Int8(),
    "i16": pl.Int16(),
    "i32": pl.Int32(),
    "i64": pl.Int64(),
    "u8": pl.UInt8(),
    "u16": pl.UInt16(),
    "u32": pl.UInt32(),
    "f32": pl.Float32(),
    "f64": pl.Float64(),
    "flag": pl.Boolean(),
    "text": pl.String(),
    "data": pl.Binary(),
    "amount": pl.Decimal(20, 3),
    "tags": pl.List(pl.String()),
    "lists": pl.List(pl.List(pl.Int64())),
}

VALUES: dict[str, st.SearchStrategy[Any]] = {
    **{f"i{bits}": st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"u{bits}": st.integers(0, 2**bits - 1) for bits in (8, 16, 32)},
    "f32": st.floats(width=32, allow_nan=False),
    "f64": st.floats(allow_nan=False),
    "flag": st.booleans(),
    "text": st.text(),
    "data": st.binary(),
    "amount": st.decimals(-(10**16), 10**16, places=3),
    "tags": st.lists(st.none() | st.text(), max_size=3),
    "lists": st.lists(st.none() | st.lists(st.none() | st.integers(-5, 5), max_size=2), max_size=2),
}
ROWS = st.lists(st.fixed_dictionaries({name: st.none() | each for name, each in VALUES.items()}), max_size=5)


def encoder(
    service: SchemaRegistry, fields: dict[str, Any], avro: Avro | None = None, topic: str = TOPIC
) -> AvroEncoder:
    plan = OutputPlan(topic, Format.AVRO, Edge.RANDOM, inner=False, declared=avro or Avro(), fields=fields)
    made = AvroEncoder(plan, shared_registry(service), register=True)
    made.prepare()
    return made


def framed(rows: list[dict[str, Any]], schema: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(pl.lit(0, pl.Int32).alias(PARTITION))


@settings(max_examples=40)
@given(rows=ROWS)
def test_what_a_sink_writes_a_source_and_every_other_program_reads(service: SchemaRegistry, rows: list[Any]) -> None:
    frame = framed(rows, EVERY_TYPE)
    values, refused = encoder(service, EVERY_TYPE).encode(frame)
    assert refused == []
    assert decoded(service, values, EVERY_TYPE).frame.equals(frame.drop(PARTITION), null_equal=True)
    assert read_back(service, values) == frame.drop(PARTITION).to_dicts()


def test_times_are_written_as_logical_types_and_read_as_numbers(service: SchemaRegistry) -> None:
    at, day = datetime(2026, 11, 30, 17, 5, 3, 123_000, tzinfo=UTC), date(2026, 11, 30)
    schema = {"ms": pl.Datetime("ms", "UTC"), "us": pl.Datetime("us"), "day": pl.Date(), "kind": pl.Enum(["a", "b"])}
    row = {"ms": at, "us": at.replace(tzinfo=None), "day": day, "kind": "b"}
    values, _ = encoder(service, schema, topic="times").encode(framed([row], schema))
    assert read_back(service, values, "times") == [row]
    numbers = {"ms": pl.Int64(), "us": pl.Int64(), "day": pl.Int32(), "kind": pl.String()}
    ms = (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert decoded(service, values, numbers).frame.rows() == [(ms, ms * 1000, (day - date(1970, 1, 1)).days, "b")]


def test_the_fields_that_every_sink_adds_are_fields_of_the_schema(service: SchemaRegistry) -> None:
    fields = {"user": pl.String(), "sched_ms": pl.Int64(), "sched_newest_ms": pl.Int64(), "events": pl.Int64()}
    frame = pl.DataFrame({"user": ["a"], SCHED: [5], EVENTS: [2], PARTITION: [0]})
    values, _ = encoder(service, fields, topic="totals").encode(frame)
    expected = [{"user": "a", "sched_ms": 5, "sched_newest_ms": None, "events": 2}]
    assert read_back(service, values, "totals") == expected


def test_a_sink_registers_its_schema_under_the_topic_and_asks_nothing_afterwards(service: SchemaRegistry) -> None:
    made = encoder(service, {"n": pl.Int64()}, Avro(record="shop.Number"), topic="numbers")
    asked = len(service.asked)
    for number in range(3):
        made.encode(framed([{"n": number}], {"n": pl.Int64()}))
    assert len(service.asked) == asked
    (id_,) = service.versions["numbers-value"]
    assert '"shop.Number"' in service.schemas[id_]["schema"]


ENUM = {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
DAYS = {"type": "int", "logicalType": "date"}
UUID = {"type": "string", "logicalType": "uuid"}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}
FIXED_MONEY = {"type": "fixed", "name": "Money", "size": 6, "logicalType": "decimal", "precision": 8, "scale": 2}
AT = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
AT_MS = 1_767_323_045_678

FITS = [
    ("int", 7, pl.Int32(), 7),
    ("int", 7, pl.Int64(), 7),
    ("int", 200, pl.UInt8(), 200),
    ("int", 7, pl.Float32(), 7.0),
    ("long", 7, pl.Float64(), 7.0),
    ("long", 2**32 - 1, pl.UInt32(), 2**32 - 1),
    ("float", 1.5, pl.Float64(), 1.5),
    ("double", 1.5, pl.Float64(), 1.5),
    ("bytes", "ä".encode(), pl.String(), "ä"),
    ("string", "ä", pl.Binary(), "ä".encode()),
    (ENUM, "PAID", pl.String(), "PAID"),
    ({"type": "fixed", "name": "Two", "size": 2}, b"ab", pl.Binary(), b"ab"),
    (MILLIS, AT, pl.Int64(), AT_MS),
    (MICROS, AT, pl.Int64(), AT_MS * 1000),
    (["null", MILLIS], AT, pl.Int64(), AT_MS),
    (DAYS, date(1970, 1, 3), pl.Int32(), 2),
    (UUID, "not checked", pl.String(), "not checked"),
    (MONEY, Decimal("1.25"), pl.Decimal(12, 4), Decimal("1.2500")),
    (FIXED_MONEY, Decimal("-1.25"), pl.Decimal(8, 2), Decimal("-1.25")),
    (["null", "int"], None, pl.Int64(), None),
    (["int", "null"], 5, pl.Int64(), 5),
    (["int", "string"], 5, pl.Int64(), 5),
    ("null", None, pl.Int64(), None),
    ({"type": "array", "items": "int"}, [1, 2], pl.List(pl.Int64()), [1, 2]),
    ({"type": "array", "items": ["null", ENUM]}, ["OPEN", None], pl.List(pl.String()), ["OPEN", None]),
]


@pytest.mark.parametrize(("kind", "value", "dtype", "expected"), FITS)
def test_a_writer_s_type_that_fits_is_read(
    service: SchemaRegistry, kind: Any, value: Any, dtype: Any, expected: Any
) -> None:
    values = written(service, record({"x": kind, "other": "int"}), {"x": value, "other": 1})
    assert only(decoded(service, list(values), {"x": dtype})) == expected


MISFITS = [
    ("long", 7, pl.Int32(), "has long, which can't be read as Int32"),
    ("double", 1.5, pl.Float32(), "has double, which can't be read as Float32"),
    ("string", "7", pl.Int64(), "has string, which can't be read as Int64"),
    ("int", 7, pl.String(), "has int, which can't be read as String"),
    ("int", 7, pl.Decimal(10, 2), "has int, which can't be read as Decimal"),
    (MONEY, Decimal(1), pl.Decimal(8, 1), r"has decimal\(8, 2\), which can't be read as Decimal"),
    (MONEY, Decimal(1), pl.Float64(), r"has decimal\(8, 2\), which can't be read as Float64"),
    ({"type": "map", "values": "int"}, {}, pl.String(), "has map, which can't be read as String"),
    ({"type": "array", "items": "string"}, [], pl.List(pl.Int64()), "has string, which can't be read as Int64"),
    ({"type": "array", "items": "int"}, [], pl.Int64(), "has an array of int, which can't be read as Int64"),
    (record({"y": "int"}, "Inner"), {"y": 1}, pl.Int64(), "has record .*Inner, which can't be read as Int64"),
]


@pytest.mark.parametrize(("kind", "value", "dtype", "reason"), MISFITS)
def test_a_writer_s_type_that_does_not_fit_makes_poison_of_every_record(
    service: SchemaRegistry, kind: Any, value: Any, dtype: Any, reason: str
) -> None:
    values = written(service, record({"x": kind}), {"x": value}, {"x": value})
    result = decoded(service, list(values), {"x": dtype})
    assert result.frame.height == 0
    assert [bad.index for bad in result.bad] == [0, 1]
    assert re.search(f"schema .*: field 'x': the record {reason}", result.bad[0].reason)


def test_a_value_beyond_its_column_is_poison_by_itself(service: SchemaRegistry) -> None:
    values = written(service, record({"x": "int"}), {"x": 1}, {"x": 300}, {"x": 2})
    result = decoded(service, list(values), {"x": pl.Int8()})
    assert result.frame["x"].to_list() == [1, 2]
    assert [bad.index for bad in result.bad] == [1]


def test_of_a_union_only_records_with_a_type_that_does_not_fit_are_poison(service: SchemaRegistry) -> None:
    values = written(service, record({"x": ["int", "string"]}), {"x": 1}, {"x": "one"}, {"x": 2})
    result = decoded(service, list(values), {"x": pl.Int64()})
    assert result.frame["x"].to_list() == [1, 2]
    assert [bad.index for bad in result.bad] == [1]


def test_fields_that_the_query_does_not_have_are_skipped_whatever_they_are(service: SchemaRegistry) -> None:
    deep = record(
        {"tags": {"type": "map", "values": ["null", ENUM]}, "more": {"type": "array", "items": MONEY}}, "Deep"
    )
    row = {"deep": {"tags": {"a": "PAID", "b": None}, "more": [Decimal(1)]}, "at": AT, "x": 5}
    values = written(service, record({"deep": deep, "at": MILLIS, "x": "int"}), row)
    assert only(decoded(service, list(values), {"x": pl.Int64()})) == 5


def test_a_type_that_is_named_again_is_read(service: SchemaRegistry) -> None:
    schema = record({"skipped": ENUM, "one": "shop.State", "two": ["null", "State"]})
    values = written(service, schema, {"skipped": "OPEN", "one": "PAID", "two": "OPEN"})
    result = decoded(service, list(values), {"two": pl.String(), "one": pl.String()})
    assert result.frame.rows() == [("OPEN", "PAID")]


def test_a_type_of_another_subject_is_read(service: SchemaRegistry) -> None:
    service.register("state-value", '{"type": "enum", "name": "shop.State", "symbols": ["OPEN", "PAID"]}')
    reference = SchemaReference("shop.State", "state-value", 1)
    values = written(service, record({"state": "shop.State"}), {"state": "PAID"}, references=[reference])
    assert only(decoded(service, list(values), {"state": pl.String()})) == "PAID"


def test_a_field_that_the_record_lacks_has_the_default_of_the_query_or_is_null(service: SchemaRegistry) -> None:
    old = written(service, record({"x": "int"}), {"x": 1})
    new = written(service, record({"x": "int", "y": "int", "z": "string"}), {"x": 2, "y": 3, "z": "a"})
    schema = {"x": pl.Int64(), "y": pl.Int64(), "z": pl.String()}
    result = decoded(service, [*new, *old, *new], schema, Avro(defaults={"y": 7}))
    assert result.frame.rows() == [(2, 3, "a"), (1, 7, None), (2, 3, "a")]


def test_records_of_any_name_are_read(service: SchemaRegistry) -> None:
    values = written(service, record({"x": "int"}, "com.example.Event"), {"x": 1})
    values += written(service, record({"x": "long"}, "Event"), {"x": 2})
    assert decoded(service, list(values), {"x": pl.Int64()}).frame["x"].to_list() == [1, 2]


def test_a_record_without_any_field_of_the_query_is_a_row_of_nulls(service: SchemaRegistry) -> None:
    values = written(service, record({"other": "int"}), {"other": 1})
    assert only(decoded(service, list(values), {"x": pl.Int64()})) is None


def test_emit_time_and_key_are_taken_as_from_json(service: SchemaRegistry) -> None:
    values = written(service, record({"x": "int", "at": MILLIS}), {"x": 1, "at": AT})
    made = decoder(registry_of(service), {"x": pl.Int64()}, emit_time="at", key_column="key")
    assert made.decode(list(values), [b"k"]).frame.to_dicts() == [{"x": 1, SCHED: AT_MS, "key": "k"}]


def test_every_kind_of_poison_has_a_reason_and_spoils_no_other(service: SchemaRegistry) -> None:
    good = written(service, record({"x": "int", "text": "string"}), {"x": 1, "text": "long enough to be cut"})[0]
    message = service.register("message-value", "c3ludGF4", "PROTOBUF").to_bytes(4, "big")
    plain = service.register("plain-value", '"string"').to_bytes(4, "big")
    poison = {
        "(a tombstone)": None,
        "it has 0 bytes and begins with nothing": b"",
        "begins with 7b 22 78 22 3a": b'{"x": 1}',
        "has no schema 99": b"\x00\x00\x00\x00\x63\x02",
        "is PROTOBUF, not AVRO": b"\x00" + message + b"\x00\x02",
        "the schema describes string, no record": b"\x00" + plain + b"\x02a",
        "not a record of schema": good[:-3],
    }
    values = [good, *(value for each in poison.values() for value in (each, good))]
    result = decoded(service, values, {"x": pl.Int64(), "text": pl.String()})
    assert result.frame["x"].to_list() == [1] * (len(poison) + 1)
    assert [bad.index for bad in result.bad] == list(range(1, len(values), 2))
    for reason, bad in zip(poison, result.bad, strict=True):
        assert reason in bad.reason


@given(data=st.binary(max_size=40))
def test_whatever_stands_behind_a_schema_id_is_a_row_or_poison(service: SchemaRegistry, data: bytes) -> None:
    schema = record({"x": "int", "tags": {"type": "array", "items": "string"}, "m": ["null", MONEY], "t": MILLIS})
    head = written(service, schema, {"x": 1, "tags": [], "m": None, "t": 0})[0][:5]
    result = decoded(service, [head + data], {"x": pl.Int64(), "m": pl.Decimal(10, 2), "t": pl.Int64()})
    assert result.frame.height + len(result.bad) == 1


def test_a_schema_is_asked_for_once(service: SchemaRegistry) -> None:
    values = written(service, record({"x": "int", "once": "int"}), {"x": 1, "once": 1})
    made = decoder(registry_of(service), {"x": pl.Int64()})
    asked = len(service.asked)
    for _ in range(3):
        made.decode(list(values) * 5)
    assert len(service.asked) == asked + 1
