import json
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.operators.json_encode import encode_json, sink_schema


def test_reserved_columns_get_their_public_names_and_the_partition_is_left_out():
    frame = pl.DataFrame({"a": [1], "__partition": [0], "__sched_ms": [5], "__sched_newest_ms": [6], "__events": [2]})
    assert encode_json(frame) == [b'{"a":1,"sched_ms":5,"sched_newest_ms":6,"events":2}']


def test_a_decimal_is_a_number_with_all_its_digits():
    frame = pl.DataFrame(
        {"a": [1, 2], "p": [Decimal("90.800"), None], "s": ["x", "y"], "q": [Decimal("-0.001"), Decimal("7.000")]},
        schema_overrides={"p": pl.Decimal(23, 3), "q": pl.Decimal(23, 3)},
    )
    assert encode_json(frame) == [b'{"a":1,"p":90.800,"s":"x","q":-0.001}', b'{"a":2,"p":null,"s":"y","q":7.000}']


def test_a_decimal_may_stand_alone():
    frame = pl.DataFrame({"p": [Decimal("0.908")]}, schema_overrides={"p": pl.Decimal(23, 3)})
    assert encode_json(frame) == [b'{"p":0.908}']


def test_bytes_are_base64_text():
    assert encode_json(pl.DataFrame({"k": [b"\xff\x00", None]})) == [b'{"k":"/wA="}', b'{"k":null}']


def test_rows_without_columns_are_empty_objects():
    assert encode_json(pl.DataFrame({"__partition": [0, 1]})) == [b"{}", b"{}"]


def test_no_rows_give_no_records():
    assert encode_json(pl.DataFrame(schema={"a": pl.Int64, "p": pl.Decimal(23, 3)})) == []


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]))),
            st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
            st.decimals(-(10**9), 10**9, places=3),
        ),
        max_size=5,
    )
)
def test_what_is_written_is_what_was_there(rows):
    frame = pl.DataFrame(rows, schema={'t"ä': pl.String, "i": pl.Int64, "d": pl.Decimal(23, 3)}, orient="row")
    parsed = [json.loads(value, parse_float=Decimal) for value in encode_json(frame)]
    assert [tuple(record.values()) for record in parsed] == rows
    assert all(list(record) == frame.columns for record in parsed)


def test_a_column_with_the_name_of_a_field_that_the_sink_adds_is_refused():
    with pytest.raises(ValueError, match=r"own field 'events'.*rename or drop"):
        sink_schema({"events": pl.Int64, "__events": pl.Int64})
    assert sink_schema({"events": pl.Int64, "__partition": pl.Int32}) == {"events": pl.Int64}
