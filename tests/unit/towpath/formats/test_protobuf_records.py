"""Protobuf messages of other programs as rows, and rows as messages that other programs read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.order_messages import DESCRIPTORS, Line, Order, Total
from tests.harness.schema_registry import SchemaRegistry
from tests.unit.towpath.formats.writing import CONTEXT, STRATEGY, TOPIC, record, registry_of, shared_registry, written
from towpath.formats.declared import Protobuf
from towpath.formats.messages import message_class
from towpath.formats.proto_decode import ProtobufDecoder
from towpath.formats.proto_encode import ProtobufEncoder
from towpath.operators.decoded import Decoded
from towpath.query.plan import PARTITION, Edge, Format, InputPlan, OutputPlan

ORDER = {
    "customer": pl.String(),
    "amount": pl.Int64(),
    "rate": pl.Float64(),
    "state": pl.String(),
    "items": pl.List(pl.Int32()),
    "note": pl.Binary(),
    "id": pl.UInt64(),
}
ORDERS = st.fixed_dictionaries(
    {
        "customer": st.text(),
        "amount": st.integers(-(2**63), 2**63 - 1),
        "rate": st.none() | st.floats(allow_nan=False),
        "state": st.sampled_from(["OPEN", "PAID"]),
        "items": st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3),
        "note": st.binary(),
        "id": st.integers(0, 2**64 - 1),
    }
)


def encoder(service: SchemaRegistry, message: type[Message], fields: dict[str, Any]) -> ProtobufEncoder:
    said = Protobuf(message)
    plan = OutputPlan(TOPIC, Format.PROTOBUF, Edge.RANDOM, inner=False, declared=said, fields=fields)
    made = ProtobufEncoder(plan, shared_registry(service), register=True)
    made.prepare()
    return made


def decoded(service: SchemaRegistry, values: list[bytes | None], schema: dict[str, Any]) -> Decoded:
    plan = InputPlan(TOPIC, Format.PROTOBUF, schema, declared=Protobuf(Order))
    return ProtobufDecoder(plan, shared_registry(service)).decode(values)


def sent(service: SchemaRegistry, *messages: Message) -> list[bytes]:
    """Records by Confluent's own serialiser."""
    client = shared_registry(service).client
    return [ProtobufSerializer(type(each), client, conf=STRATEGY)(each, CONTEXT) or b"" for each in messages]


@given(rows=st.lists(ORDERS, max_size=5))
def test_what_a_sink_writes_a_source_and_every_other_program_reads(service: SchemaRegistry, rows: list[Any]) -> None:
    frame = pl.DataFrame(rows, schema=ORDER, orient="row")
    values, refused = encoder(service, Order, ORDER).encode(frame.with_columns(pl.lit(0).alias(PARTITION)))
    assert refused == []
    assert decoded(service, values, ORDER).frame.equals(frame, null_equal=True)
    read = ProtobufDeserializer(Order)
    others = [read(value) for value in values]
    assert [(each.customer, each.amount, list(each.items), each.id) for each in others] == [
        (row["customer"], row["amount"], row["items"], row["id"]) for row in rows
    ]


def test_fields_that_are_not_set_have_their_default_and_null_where_there_is_none(service: SchemaRegistry) -> None:
    values = sent(service, Order(customer="a"))
    assert decoded(service, list(values), ORDER).frame.rows() == [("a", 0, None, "OPEN", [], b"", 0)]


def test_an_enum_is_read_as_its_number_too_and_one_that_is_not_known_as_its_number_in_text(
    service: SchemaRegistry,
) -> None:
    values = sent(service, Order(state=1), Order(state=9))
    assert decoded(service, list(values), {"state": pl.Int32()}).frame["state"].to_list() == [1, 9]
    assert decoded(service, list(values), {"state": pl.String()}).frame["state"].to_list() == ["PAID", "9"]


def test_nulls_of_a_sink_are_fields_that_are_not_set_and_a_list_can_not_hold_any(service: SchemaRegistry) -> None:
    fields = {"customer": pl.String(), "items": pl.List(pl.Int32())}
    rows = [{"customer": None, "items": [1]}, {"customer": "b", "items": [None]}, {"customer": "c", "items": None}]
    frame = pl.DataFrame(rows, schema=fields, orient="row").with_columns(pl.lit(0).alias(PARTITION))
    values, refused = encoder(service, Order, fields).encode(frame)
    assert [index for index, _ in refused] == [1]
    assert decoded(service, values, fields).frame.rows() == [("", [1]), ("c", [])]


def test_every_kind_of_poison_has_a_reason_and_spoils_no_other(service: SchemaRegistry) -> None:
    (good,) = sent(service, Order(customer="a"))
    poison = {
        "(a tombstone)": None,
        "begins with 7b 22 78 22 3a": b'{"x": 1}',
        "has no schema 99": b"\x00\x00\x00\x00\x63\x00\x02",
        "is AVRO, not PROTOBUF": written(service, record({"x": "int"}), {"x": 1})[0],
        "the record is a shop.Line, and the query reads shop.Order": sent(service, Line(article=1))[0],
        "has no message [7]": good[:5] + b"\x02\x0e" + good[6:],
        "does not say which message": good[:5] + b"\x82",
        "not a message of schema": good[:-1],
    }
    values = [good, *(value for each in poison.values() for value in (each, good))]
    result = decoded(service, values, {"customer": pl.String()})
    assert result.frame["customer"].to_list() == ["a"] * (len(poison) + 1)
    assert [bad.index for bad in result.bad] == list(range(1, len(values), 2))
    for reason, bad in zip(poison, result.bad, strict=True):
        assert reason in bad.reason


def test_the_second_message_of_a_file_is_read(service: SchemaRegistry) -> None:
    values = sent(service, Total(customer="a", count=3))
    plan = InputPlan(TOPIC, Format.PROTOBUF, {"count": pl.Int64()}, declared=Protobuf(Total))
    assert ProtobufDecoder(plan, registry_of(service)).decode(list(values)).frame.item() == 3


@given(data=st.binary(max_size=40))
def test_whatever_stands_behind_a_schema_id_is_a_row_or_poison(service: SchemaRegistry, data: bytes) -> None:
    (good,) = sent(service, Order(customer="a"))
    result = decoded(service, [good[:5] + data], ORDER)
    assert result.frame.height + len(result.bad) == 1


def test_a_message_is_found_in_a_module_and_in_a_descriptor_set(tmp_path: Path) -> None:
    assert message_class("tests.harness.order_messages:Order") is Order
    path = tmp_path / "shop.desc"
    path.write_bytes(DESCRIPTORS.SerializeToString())
    found = message_class("shop.Order", path)
    assert found.DESCRIPTOR.full_name == "shop.Order"
    assert found(customer="a").SerializeToString() == Order(customer="a").SerializeToString()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("shop.Order", "write 'package.module_pb2:Message'"),
        ("tests.harness.no_messages:Order", "can't be imported"),
        ("tests.harness.order_messages:Ordr", r"has no message 'Ordr'; did you mean 'Order'\?"),
        ("tests.harness.order_messages:FILE", "is no Protobuf message, but FileDescriptorProto"),
    ],
)
def test_a_message_that_is_not_there_is_named_with_the_nearest(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        message_class(name)


def test_a_descriptor_set_that_can_not_be_used_is_named(tmp_path: Path) -> None:
    path = tmp_path / "shop.desc"
    with pytest.raises(ValueError, match=r"shop\.desc can't be read: No such file"):
        message_class("shop.Order", path)
    path.write_bytes(b"\xff\xff")
    with pytest.raises(ValueError, match="is no descriptor set"):
        message_class("shop.Order", path)
    path.write_bytes(DESCRIPTORS.SerializeToString())
    with pytest.raises(ValueError, match=r"has no message 'shop\.Ordr'; did you mean 'shop\.Order'\?"):
        message_class("shop.Ordr", path)
