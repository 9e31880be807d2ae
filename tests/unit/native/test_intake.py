"""An intake makes of columns what it makes of single records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.native.messages import Message, plain
from tests.unit.towpath.stage.plans import pass_stage
from towpath.operators.arrow_frames import encode_frames
from towpath.query.plan import Format, InputPlan, StagePlan
from towpath.stage.intake import Batch, Intake
from towpath_native.records import Records

PLAN: StagePlan = replace(
    pass_stage(),
    inputs=(
        InputPlan("bids", Format.JSON, {"auction": pl.Int64, "price": pl.Float64}, emit_time="sched_ms"),
        InputPlan("people", Format.JSON, {"name": pl.String, "age": pl.UInt8}, key_column="name_of"),
        InputPlan("edge", Format.ARROW, {"auction": pl.Int64}),
        InputPlan("raw", Format.BYTES, {}),
    ),
)

VALUES = {
    "bids": [b'{"auction":1,"price":2.5,"sched_ms":7}', b'{"price":-0.0}', b'{"auction":"1"}', b"{", None],
    "people": [b'{"name":"a"}', '{"name":"ä","age":1}'.encode(), b'{"age":256}', b"[]", None],
    "edge": [encode_frames(pl.DataFrame({"auction": numbers}))[0] for numbers in ([1], [2, 3, 4])] + [b"damaged"],
    "raw": [b"", b"\xff", None],
}

MESSAGES = st.lists(
    st.sampled_from(sorted(VALUES)).flatmap(
        lambda topic: st.builds(
            Message,
            topic_=st.just(topic),
            partition_=st.integers(0, 3),
            offset_=st.integers(0, 1000),
            value_=st.sampled_from(VALUES[topic]),
            key_=st.sampled_from([None, b"", b"key", b"\xff"]),
            timestamp_=st.tuples(st.just(2), st.integers(0, 5)),
        )
    ),
    min_size=1,
    max_size=20,
)


def said(batch: Batch) -> dict[str, Any]:
    """All that a batch says, in values that can be compared."""
    origin = batch.origin()
    return {
        "schema": None if batch.frame is None else batch.frame.schema,
        "rows": None if batch.frame is None else repr(batch.frame.rows()),
        "next": list(batch.next_offsets.items()),
        "records": batch.records,
        "poison": [(plain([each.message]), each.reason) for each in batch.poison],
        "oldest": batch.oldest_ms,
        "parts": [
            (part.topic, plain(part.messages), part.partitions.tolist(), part.rows.tolist()) for part in batch.parts
        ],
        "sources": origin.sources,
        "origin": [each.tolist() for each in (origin.source, origin.partition, origin.offset, origin.row)],
        "types": [each.dtype for each in (origin.source, origin.partition, origin.offset, origin.row)],
    }


@pytest.mark.slow
@settings(max_examples=50)
@given(MESSAGES)
def test_a_batch_of_columns_is_that_of_its_records(messages):
    assert said(Intake(PLAN).read(Records.of(messages))) == said(Intake(PLAN).read(messages))


@pytest.mark.slow
@settings(max_examples=40)
@given(MESSAGES, st.integers(0, 19))
def test_a_part_of_the_columns_is_a_batch_too(messages, start):
    start = min(start, len(messages) - 1)
    columns, singly = Intake(PLAN).read(Records.of(messages)[start:]), Intake(PLAN).read(messages[start:])
    assert columns.next_offsets == singly.next_offsets
    assert sorted(plain([each.message for each in columns.poison]), key=repr) == sorted(
        plain([each.message for each in singly.poison]), key=repr
    )
    assert {part.topic: plain(part.messages) for part in columns.parts} == {
        part.topic: plain(part.messages) for part in singly.parts
    }


def test_partitions_that_alternate_keep_their_order_and_their_last_offset():
    messages = [
        Message("bids", number % 3, 100 + number, b'{"auction":%d}' % number if number % 4 else b"{")
        for number in range(12)
    ]
    batch = Intake(PLAN).read(Records.of(messages))
    assert batch.frame is not None
    assert batch.frame.get_column("auction").to_list() == [number for number in range(12) if number % 4]
    assert {source.partition: offset for source, offset in batch.next_offsets.items()} == {0: 110, 1: 111, 2: 112}
    assert [each.message.offset() for each in batch.poison] == [100, 104, 108]
    assert batch.origin().offset.tolist() == [100 + number for number in range(12) if number % 4]
