"""Formats of sources and sinks are checked as soon as they are said."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from towpath.formats.declared import Avro, Protobuf
from towpath.query import ColumnTypeError, Query, QueryError, UnknownColumnError, avro, protobuf
from towpath.query.plan import Format
from towpath.query.render import render_text

ORDER = protobuf("tests.harness.order_messages:Order")


def source(schema: Any = None, format: Any = "avro", **more: Any) -> Any:  # noqa: A002
    return Query("app").source("orders", schema=schema or {"user": pl.String, "n": pl.Int64}, format=format, **more)


def test_json_is_the_format_of_queries_that_say_none() -> None:
    query = Query("app")
    query.source("in", schema={"n": pl.Int64}).sink("out")
    (stage,) = query.plan().stages
    assert (stage.inputs[0].format, stage.outputs[0].format) == (Format.JSON, Format.JSON)
    assert (stage.inputs[0].declared, stage.outputs[0].declared) == (None, None)


def test_a_plan_knows_the_formats_and_the_fields_of_sinks() -> None:
    query = Query("app")
    rows = query.source("in", schema={"user": pl.String, "n": pl.Int64}, format=avro(defaults={"n": 1}), emit_time="at")
    rows.key_by("user").count().sink("out", key="user", format=avro(record="shop.Total"))
    source_stage, count = query.plan().stages
    assert source_stage.inputs[0].format is Format.AVRO
    assert source_stage.inputs[0].declared == Avro(defaults={"n": 1})
    assert list(source_stage.inputs[0].schema) == ["user"]
    (output,) = count.outputs
    assert (output.format, output.declared) == (Format.AVRO, Avro(record="shop.Total"))
    assert list(output.fields) == ["user", "count", "sched_ms", "sched_newest_ms", "events"]
    assert "out (avro) hash by user" in render_text(query.plan())


def test_a_format_that_does_not_exist_is_named_with_the_nearest() -> None:
    with pytest.raises(
        QueryError, match=r"source 'orders': format='avrö', .* json, avro, protobuf; did you mean 'avro'"
    ):
        source(format="avrö")
    with pytest.raises(QueryError, match=r"sink 'out': format='jsn', .*did you mean 'json'"):
        source().sink("out", format="jsn")
    with pytest.raises(QueryError, match=r"say which message: format=protobuf\('package.module_pb2:Message'\)"):
        source(format="protobuf")


@pytest.mark.parametrize("dtype", [pl.UInt64, pl.Duration, pl.Struct({"a": pl.Int64}), pl.List(pl.Time)])
def test_a_column_type_that_avro_lacks_is_refused(dtype: Any) -> None:
    with pytest.raises(
        ColumnTypeError, match=r"source 'orders', field 'x': an Avro field can't be read as .*use one of"
    ):
        source({"x": dtype})
    with pytest.raises(QueryError, match=r"sink 'out': column 'x': .* has no Avro type.*cast it"):
        source({"x": pl.Int64}).map_batches(lambda f: f.with_columns(pl.lit(None, dtype).alias("x"))).sink(
            "out", format="avro"
        )


def test_types_that_avro_has_and_json_lacks_can_be_read() -> None:
    source({"data": pl.Binary, "ratio": pl.Float32}).sink("out", format="avro")


def test_names_that_avro_can_not_have_are_refused() -> None:
    with pytest.raises(ColumnTypeError, match=r"field 'a-b': the names of Avro fields have .*rename it"):
        source({"a-b": pl.Int64})
    with pytest.raises(QueryError, match=r"sink 'out': column 'a-b': the names of Avro fields"):
        source().select(pl.col("n").alias("a-b")).sink("out", format="avro")
    with pytest.raises(QueryError, match=r"record='shop-Total': expected a full name such as 'shop.Total'"):
        avro(record="shop-Total")


def test_defaults_are_those_of_fields_and_fit_them() -> None:
    with pytest.raises(UnknownColumnError, match=r"unknown field 'm'; did you mean 'n'\?|unknown field 'm'"):
        source(format=avro(defaults={"m": 1}))
    with pytest.raises(ColumnTypeError, match=r"defaults: 'n' is 'one', which is no Int64"):
        source(format=avro(defaults={"n": "one"}))
    with pytest.raises(QueryError, match="defaults are for sources"):
        source().sink("out", format=avro(defaults={"n": 1}))
    with pytest.raises(QueryError, match="is for sinks"):
        source(format=avro(record="shop.Order"))


def test_the_columns_of_a_message_are_fields_of_it_and_fit_them() -> None:
    fits = {"customer": pl.String, "amount": pl.Int64, "rate": pl.Float64, "state": pl.Int32, "id": pl.UInt64}
    assert source({**fits, "items": pl.List(pl.Int64), "note": pl.Binary}, ORDER).schema.keys() > fits.keys()
    for schema, message in [
        ({"custmer": pl.String}, r"message shop\.Order has no such field; did you mean 'customer'\?"),
        ({"amount": pl.Int32}, r"the field int64 shop\.Order\.amount can't be read as Int32; use Int64"),
        ({"id": pl.Int64}, r"uint64 shop\.Order\.id can't be read as Int64; use UInt64"),
        ({"items": pl.Int32}, r"repeated int32 .* can't be read as Int32; use List\(Int32\) or List\(Int64\)"),
        ({"first": pl.String}, r"message shop\.Order\.first can't be read as String; use only fields that are scalars"),
    ]:
        with pytest.raises(ColumnTypeError, match=message):
            source(schema, ORDER)
    with pytest.raises(ColumnTypeError, match=r"field 'emitted': message shop\.Order has no such field"):
        source({"amount": pl.Int64}, ORDER, emit_time="emitted")


def test_a_sink_writes_fields_of_its_message_and_of_what_sinks_add_those_that_it_has() -> None:
    query = Query("app")
    rows = query.source("in", schema={"customer": pl.String, "amount": pl.Int64}, format=ORDER, emit_time="sched_ms")
    rows.sink("out", format=ORDER)
    rows.key_by("customer").count().sink("totals", format=protobuf("tests.harness.order_messages:Total"))
    outputs = {output.topic: output for stage in query.plan().stages for output in stage.outputs}
    assert list(outputs["out"].fields) == ["customer", "amount", "sched_ms"]
    assert list(outputs["totals"].fields) == ["customer", "count"]
    assert isinstance(outputs["out"].declared, Protobuf)
    with pytest.raises(QueryError, match=r"sink 'x': column 'user': message shop\.Order has no such field"):
        source().sink("x", format=ORDER)
    with pytest.raises(QueryError, match=r"column 'items': Int64 can't be written to the field repeated int32"):
        source().select(pl.col("n").alias("items")).sink("x", format=ORDER)


def test_a_message_that_is_not_there_is_named() -> None:
    with pytest.raises(QueryError, match=r"protobuf\('tests.harness.order_messages:Ordr'\): .*did you mean 'Order'"):
        protobuf("tests.harness.order_messages:Ordr")


def test_the_schema_of_a_sink_has_nullable_fields_with_null_as_default() -> None:
    from towpath.formats.avro_types import record_name, record_schema

    schema = json.loads(record_schema(record_name("9-key.count"), {"n": pl.UInt32, "tags": pl.List(pl.String)}))
    assert schema == {
        "type": "record",
        "name": "_9_key_count",
        "fields": [
            {"name": "n", "type": ["null", "long"], "default": None},
            {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "string"]}], "default": None},
        ],
    }
