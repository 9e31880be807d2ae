"""Decoding by columns gives what decoding one by one gives: rows, types, bits, and what is said of broken records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nexmark import AUCTION_FIELDS, BID_FIELDS, PERSON_FIELDS, GeneratorConfig, generate_json
from tests.unit.native import written
from towpath.operators.json_decode import JsonDecoder, plain_field
from towpath_native import WHY_NOT
from towpath_native.cells import Cells
from towpath_native.json_columns import MOST_FIELDS, Field, JsonColumns, Kind

pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=f"no columns: {WHY_NOT}")

TEXTS = {"type", "name", "email_address", "credit_card", "city", "state", "item_name", "description", "channel", "url"}


def check(decoder: JsonDecoder, records: Sequence[bytes | None], keys: Sequence[bytes | None] = ()) -> None:
    """Both ways say the same; as text, in which -0.0 differs from 0.0, and unequal floats do."""
    singly = decoder.decode(records, keys)
    columns = decoder.decode(Cells.of(records), Cells.of(keys))
    assert columns.frame.schema == singly.frame.schema
    assert repr(columns.frame.rows()) == repr(singly.frame.rows())
    assert columns.rows.tolist() == singly.rows.tolist()
    assert columns.bad == singly.bad


def odd_of(schema: dict[str, Any], records: Sequence[bytes | None]) -> list[int]:
    """Which records are left to somebody else."""
    fields = {name: plain_field(dtype) for name, dtype in schema.items()}
    columns = JsonColumns({name: field for name, field in fields.items() if field is not None})
    return columns.decode(Cells.of(records))[1].tolist()


def table(schema: dict[str, Any], records: Sequence[bytes]) -> pl.DataFrame:
    return JsonDecoder(schema).decode(Cells.of(records)).frame


@pytest.mark.slow
@settings(max_examples=80)
@given(data=st.data(), schema=written.schemas, emit_time=st.sampled_from([None, None, "sched_ms", "other"]))
def test_columns_are_what_decoding_one_by_one_gives(data, schema, emit_time):
    decoder = JsonDecoder(schema, emit_time)
    fields = schema if emit_time is None else {**schema, emit_time: pl.Int64}
    for _ in range(2):  # names that are known of one batch are tried with the next
        check(decoder, data.draw(st.lists(written.records(fields), max_size=6)))


@pytest.mark.slow
@settings(max_examples=50)
@given(data=st.data(), schema=written.schemas)
def test_keys_become_a_column_and_broken_ones_are_poison(data, schema):
    pairs = data.draw(st.lists(st.tuples(written.records(schema), written.keys), max_size=8))
    decoder = JsonDecoder(schema, key_column="key")
    check(decoder, [record for record, _ in pairs], [key for _, key in pairs])


@pytest.mark.slow
@settings(max_examples=100)
@given(tokens=st.lists(st.one_of(written.numbers, written.strings, written.literals), max_size=12))
@pytest.mark.parametrize("needed", [True, False], ids=["needed", "skipped"])
def test_every_value_means_the_same(needed, tokens):
    schema = dict(zip("abcdefghij", written.TYPES, strict=True)) if needed else {"z": pl.Int8}
    records = [b'{"%s":%s}' % (name, token) for token in tokens for name in (b"a", b"d", b"g", b"h", b"i", b"j")]
    check(JsonDecoder(schema), records)


def test_every_edge_of_numbers_means_the_same_for_every_type_and_wherever_it_ends():
    numbers = [number.encode() for number in written.EDGES]
    for dtype in written.TYPES:
        decoder = JsonDecoder({"a": dtype})
        for behind in (b"}", b' ,"b":"                "}'):
            check(decoder, [b'{"a":' + number + behind for number in numbers])


@settings(max_examples=50)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=50))
def test_floats_keep_their_bits(numbers):
    schema = {"a": pl.Float64}
    frame = table(schema, [b'{"a":%s}' % repr(number).encode() for number in numbers])
    assert frame.get_column("a").to_numpy().tobytes() == np.array(numbers).tobytes()


@pytest.mark.parametrize("sign", ["", "-"])
def test_floats_of_few_digits_keep_their_bits_at_every_exponent(sign):
    written_so = [f"{sign}{digits}e{power}" for digits in ("1", "3.7", "123456789.012345") for power in range(-30, 31)]
    frame = table({"a": pl.Float64}, [b'{"a":%s}' % text.encode() for text in written_so])
    assert frame.get_column("a").to_numpy().tobytes() == np.array([float(text) for text in written_so]).tobytes()


def test_zero_has_a_sign_only_where_it_is_written_as_a_fraction():
    frame = table({"a": pl.Float64}, [b'{"a":-0}', b'{"a":-0.0}', b'{"a":-0e1}', b'{"a":0}'])
    check(JsonDecoder({"a": pl.Float64}), [b'{"a":-0}', b'{"a":-0.0}', b'{"a":-0e1}', b'{"a":0}'])
    assert np.signbit(frame.get_column("a").to_numpy()).tolist() == [False, True, True, False]


@pytest.mark.parametrize("start", [0, 1_000_000])
def test_events_of_nexmark_have_no_odd_record(start):
    schema = {
        name: pl.String if name in TEXTS | {"extra"} else pl.Int64
        for name in (*PERSON_FIELDS, *AUCTION_FIELDS, *BID_FIELDS, "sched_ms")
    }
    events = generate_json(GeneratorConfig(), start, 2000, sched_ms=np.arange(2000)).to_pylist()
    assert odd_of(schema, events) == []
    check(JsonDecoder(schema), events)


def test_the_order_of_fields_may_change_from_record_to_record():
    records = [b'{"a":1,"b":"x","c":2}', b'{"c":3,"b":"y","a":4}', b'{"b":"z"}', b'{"x":0,"a":5,"c":6,"b":"w"}'] * 3
    schema = {"a": pl.Int64, "b": pl.String, "c": pl.Int16}
    assert odd_of(schema, records) == []
    assert table(schema, records).rows() == [(1, "x", 2), (4, "y", 3), (None, "z", None), (5, "w", 6)] * 3


def test_a_name_is_no_other_that_begins_as_it_does():
    schema = {"ab": pl.Int64, "abc": pl.Int64}
    records = [b'{"ab":1}', b'{"abc":2}', b'{"a":3}', b'{"ab":4,"abc":5}', b'{"abcd":6}', b'{"abc":7,"ab":8}']
    expected = [(1, None), (None, 2), (None, None), (4, 5), (None, None), (8, 7)]
    assert table(schema, records).rows() == expected


@pytest.mark.parametrize("size", [1, 14, 15, 16, 17, 46, 47, 48, 49, 300])
def test_names_of_any_length(size):
    name, other = "n" * size, "n" * (size - 1) + "m"
    records = [f'{{"{first}":{index},"b":{index}}}'.encode() for index, first in enumerate([name, name, other, name])]
    records.append(f'{{"{name}":4}}'.encode())
    schema = {name: pl.Int64, "b": pl.Int64}
    assert odd_of(schema, records) == []
    assert table(schema, records).rows() == [(0, 0), (1, 1), (None, 2), (3, 3), (4, None)]


def test_more_names_a_record_than_are_known():
    names = [f"n{number}" for number in range(150)]
    schema = dict.fromkeys(names[::3], pl.Int64)
    records = [
        ("{" + ",".join(f'"{name}":{index}' for index, name in enumerate(names[shift:] + names[:shift])) + "}").encode()
        for shift in (0, 0, 1, 70, 149)
    ]
    assert odd_of(schema, records) == []
    check(JsonDecoder(schema), records)


def test_as_many_fields_as_can_be_and_one_more():
    most = {f"f{number}": pl.Int64 for number in range(MOST_FIELDS)}
    record = ("{" + ",".join(f'"{name}":1' for name in reversed(most)) + "}").encode()
    assert odd_of(most, [record]) == []
    for schema in (most, {**most, "more": pl.Int64}):
        check(JsonDecoder(schema), [record, b"{", record])
    with pytest.raises(ValueError, match="65 fields are more than 64"):
        JsonColumns(dict.fromkeys([*most, "more"], Field(Kind.INTEGER)))


@pytest.mark.parametrize("depth", [1, 31, 32, 33, 400])
def test_what_is_nested_deeply_is_not_judged(depth):
    lists, objects = b"[" * depth + b"]" * depth, b'{"y":' * depth + b"1" + b"}" * depth
    records = [b'{"x":' + lists + b',"a":1}', b'{"x":' + objects + b"}"]
    assert odd_of({"a": pl.Int64}, records) == ([] if depth <= 32 else [0, 1])
    check(JsonDecoder({"a": pl.Int64}), [*records, b'{"a":2}'])


@pytest.mark.parametrize(
    "record",
    [
        None,
        b"",
        b" ",
        b"[]",
        b"{",
        b'{"a":1}x',
        b'{"a":1,}',
        b'{"a":1,"a":1}',
        b'{"a":"1"}',
        b'{"a":1.0}',
        b'{"a":128}',
        b'{"a":01}',
        b'{"t":"\\n"}',
        '{"t":"ä"}'.encode(),
        b'{"\\u0061":1}',
        b'{"x":1234567890123456789}',
        b'{"x":[1,]}',
    ],
)
def test_an_odd_record_leaves_no_trace_in_its_row_or_the_next(record):
    schema = {"t": pl.String, "a": pl.Int8}
    good = b'{"t":"text","a":7}'
    columns = JsonColumns({"t": Field(Kind.TEXT), "a": Field(Kind.INTEGER, -128, 127)})
    records = Cells.of([good, record and record.replace(b"{", b'{"t":"before",', 1), record, good])
    (text, numbers), odd = columns.decode(records)
    assert set(odd) >= {2}
    assert numbers.valid.tolist() == [int(place not in odd) for place in range(4)]
    assert pl.Series(text.values).to_list() == [None if place in odd else "text" for place in range(4)]
    check(JsonDecoder(schema), list(records))


def test_rows_without_a_value_do_not_send_a_batch_to_be_decoded_one_by_one(monkeypatch):
    decoder = JsonDecoder({"a": pl.Int8, "b": pl.UInt32})
    monkeypatch.setattr(decoder, "_decode_singly", None)
    records = Cells.of([b'{"a":1}', b"{}"] * 500)
    for _ in range(20):
        rubbish = [np.full(1000, 2**62) for _ in range(20)]
        del rubbish  # its memory is what columns are made of next
        assert decoder.decode(records).frame.get_column("b").null_count() == 1000


def test_records_are_read_wherever_they_lie_in_their_buffer():
    cells = Cells.of([b'{"a":1}', b"garbage", b'{"a":2}', None, b'{"a":3}'])
    decoder = JsonDecoder({"a": pl.Int64})
    assert decoder.decode(cells.at(np.array([4, 0, 0, 2]))).frame.rows() == [(3,), (1,), (1,), (2,)]
    assert decoder.decode(cells[::2]).frame.rows() == [(1,), (2,), (3,)]
    assert decoder.decode(cells[5:]).frame.rows() == []


def test_what_was_decoded_before_stays_when_more_is_decoded():
    decoder = JsonDecoder({"t": pl.String, "f": pl.Float64})
    frames = [decoder.decode(Cells.of([b'{"t":"%d","f":%d}' % (n, n)] * 100)).frame for n in range(50)]
    assert all(frame.unique().rows() == [(str(n), float(n))] for n, frame in enumerate(frames))
