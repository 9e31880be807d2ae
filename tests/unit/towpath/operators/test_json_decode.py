from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.operators.json_decode import JsonDecoder

BID = {"type": pl.String, "auction": pl.Int64}


def test_decodes_only_the_fields_of_the_schema():
    decoded = JsonDecoder(BID).decode([b'{"type":"bid","auction":7,"url":"x"}'])
    assert decoded.frame.to_dicts() == [{"type": "bid", "auction": 7}]
    assert decoded.bad == []


def test_absent_and_null_fields_become_null():
    decoded = JsonDecoder(BID).decode([b"{}", b'{"type":null,"auction":null}'])
    assert decoded.frame.rows() == [(None, None), (None, None)]


def test_emit_time_becomes_the_reserved_column():
    decoded = JsonDecoder(BID, emit_time="sched_ms").decode([b'{"type":"bid","auction":7,"sched_ms":12}'])
    assert decoded.frame.get_column("__sched_ms").to_list() == [12]


def test_emit_time_may_also_be_a_column_of_the_schema():
    decoded = JsonDecoder({"sched_ms": pl.Int64}, emit_time="sched_ms").decode([b'{"sched_ms":12}'])
    assert decoded.frame.to_dicts() == [{"sched_ms": 12, "__sched_ms": 12}]


def test_a_field_may_have_a_name_that_is_no_identifier():
    decoded = JsonDecoder({"user-id": pl.Int64, "class": pl.String}).decode([b'{"user-id":1,"class":"a"}'])
    assert decoded.frame.rows() == [(1, "a")]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b'{"type":"bid","auction":"7"}', "Expected `int | null`, got `str`"),
        (b'{"type":"bid","auction":7.5}', "Expected `int | null`, got `float`"),
        (b'{"type":"bid","auction":true}', "Expected `int | null`, got `bool`"),
        (b'{"type":"bid","auction":9223372036854775808}', "<= 9223372036854775807"),
        (b'{"type":5}', "Expected `str | null`, got `int`"),
        (b'{"type":"\xff"}', "utf-8"),
        (b'{"type":"bid"', "truncated"),
        (b'{"type":"bid"} x', "trailing"),
        (b'{"other":nonsense}', "malformed"),
        (b"[]", "Expected `object`"),
        (b"", "truncated"),
        (None, "tombstone"),
    ],
)
def test_a_poison_record_is_named_and_spoils_no_other(record, reason):
    good = b'{"type":"bid","auction":1}'
    decoded = JsonDecoder(BID).decode([good, record, good])
    assert decoded.frame.height == 2
    assert decoded.rows.tolist() == [1, 0, 1]
    assert [bad.index for bad in decoded.bad] == [1]
    assert reason in decoded.bad[0].reason


def test_a_decimal_keeps_its_digits():
    decoded = JsonDecoder({"price": pl.Decimal(23, 3)}).decode([b'{"price":90.800}'])
    assert decoded.frame.item() == Decimal("90.800")


def test_lists_are_checked_to_the_inside():
    decoded = JsonDecoder({"tags": pl.List(pl.Int64)}).decode([b'{"tags":[1,null]}', b'{"tags":["1"]}'])
    assert decoded.frame.item(0, "tags").to_list() == [1, None]
    assert [bad.index for bad in decoded.bad] == [1]


def test_the_key_becomes_a_column_and_a_broken_key_is_poison():
    decoder = JsonDecoder({"a": pl.Int64}, key_column="k")
    decoded = decoder.decode([b'{"a":1}', b'{"a":2}', b'{"a":3}'], [b"x", b"\xff", None])
    assert decoded.frame.rows() == [(1, "x"), (3, None)]
    assert [bad.index for bad in decoded.bad] == [1]


def test_a_type_that_json_lacks_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"can't be read as Duration.*use one of Boolean, Decimal, .*Int64"):
        JsonDecoder({"a": pl.Duration})


@given(st.lists(st.one_of(st.just(b'{"type":"bid","auction":1}'), st.binary(max_size=12)), max_size=20))
def test_every_record_is_either_a_row_or_poison(records):
    decoded = JsonDecoder(BID).decode(records)
    assert decoded.frame.height == decoded.rows.sum()
    assert len(decoded.bad) + decoded.frame.height == len(records)
    assert [bad.index for bad in decoded.bad] == [index for index, rows in enumerate(decoded.rows) if rows == 0]


def test_a_value_that_json_can_hold_but_the_column_can_not_is_poison():
    decoder = JsonDecoder({"p": pl.Decimal(5, 3)})
    decoded = decoder.decode([b'{"p":1.5}', b'{"p":123456789.5}', b'{"p":2.5}', b"{"])
    assert decoded.frame.get_column("p").to_list() == [Decimal("1.500"), Decimal("2.500")]
    assert [bad.index for bad in decoded.bad] == [1, 3]


def test_poison_of_both_kinds_is_reported_in_order():
    decoded = JsonDecoder({"a": pl.Int64}, key_column="k").decode([b'{"a":1}', b"{", b'{"a":3}'], [b"\xff", b"", b"x"])
    assert [bad.index for bad in decoded.bad] == [0, 1]
    assert decoded.frame.rows() == [(3, "x")]


@pytest.mark.parametrize("depth", [1_000, 100_000])
@pytest.mark.parametrize("field", ["a", "x"])
def test_a_record_that_is_nested_too_deep_is_poison(depth, field):
    deep = b'{"%s":' % field.encode() + b"[" * depth + b"]" * depth + b"}"

    decoded = JsonDecoder({"a": pl.Int64}).decode([b'{"a":1}', deep, b'{"a":2}'])

    assert decoded.frame.get_column("a").to_list() == [1, 2]
    assert [poison.index for poison in decoded.bad] == [1]
