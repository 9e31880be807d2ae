from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemgr.kafka.ports import Message
from statemgr.types import TopicPartition
from tests.unit.towpath.stage.plans import SOURCE, key_count, pass_stage
from towpath.errors import StageStoppedError
from towpath.operators.arrow_frames import encode_frames
from towpath.query.plan import PARTITION, Format, InputPlan
from towpath.stage.intake import Intake


class Plain:
    """A message as plain data."""

    def __init__(
        self,
        value: bytes | None,
        offset: int,
        partition: int = 0,
        topic: str = SOURCE,
        key: bytes | None = None,
        time_ms: int = 1000,
    ) -> None:
        self._fields = (topic, partition, offset, key, value)
        self._time_ms = time_ms

    def topic(self) -> str:
        return self._fields[0]

    def partition(self) -> int:
        return self._fields[1]

    def offset(self) -> int:
        return self._fields[2]

    def key(self) -> bytes | None:
        return self._fields[3]

    def value(self) -> bytes | None:
        return self._fields[4]

    def headers(self) -> list[tuple[str, bytes]] | None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 2, self._time_ms


def bid(auction: Any) -> bytes:
    return json.dumps({"auction": auction}).encode()


def rows(frame: pl.DataFrame | None) -> list[tuple[int, Any]]:
    return [] if frame is None else frame.select(PARTITION, "auction").rows()


@given(records=st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=50))
def test_rows_keep_their_partition_and_order_whatever_is_poison(records: list[tuple[int, bool]]) -> None:
    messages: list[Message] = [
        Plain(bid(number) if good else b"{", number, partition) for number, (partition, good) in enumerate(records)
    ]
    batch = Intake(pass_stage()).read(messages)
    good = [(partition, number) for number, (partition, is_good) in enumerate(records) if is_good]
    assert rows(batch.frame) == good
    assert [item.message.offset() for item in batch.poison] == [
        number for number, (_, is_good) in enumerate(records) if not is_good
    ]
    assert batch.next_offsets == {
        TopicPartition(SOURCE, partition): number + 1 for number, (partition, _) in enumerate(records)
    }
    assert batch.records == len(records)


def test_a_batch_of_nothing_but_poison_has_no_rows_but_moves_on() -> None:
    batch = Intake(pass_stage()).read([Plain(b"{", 4), Plain(None, 5)])
    assert batch.frame is None
    assert batch.next_offsets == {TopicPartition(SOURCE, 0): 6}
    assert [item.reason for item in batch.poison][1] == "the record has no value (a tombstone)"


def test_several_topics_come_in_one_frame_with_the_columns_of_both() -> None:
    plan = pass_stage()
    other = InputPlan("people", Format.JSON, {"name": pl.String})
    batch = Intake(replace(plan, inputs=(*plan.inputs, other))).read(
        [Plain(bid(1), 0), Plain(b'{"name": "x"}', 7, 2, "people"), Plain(bid(2), 1)]
    )
    assert batch.frame is not None
    assert batch.frame.select("auction", "name", PARTITION).rows() == [(1, None, 0), (2, None, 0), (None, "x", 2)]
    assert batch.next_offsets == {TopicPartition(SOURCE, 0): 2, TopicPartition("people", 2): 8}


def test_every_row_of_a_record_of_an_inner_edge_belongs_to_the_record_s_partition() -> None:
    plan = key_count().plan().stage("count")
    (edge,) = plan.inputs
    frames = [pl.DataFrame({"auction": auctions}) for auctions in ([1, 2], [3])]
    values = [encode_frames(frame)[0] for frame in frames]
    batch = Intake(plan).read([Plain(values[0], 3, 1, edge.topic), Plain(values[1], 9, 2, edge.topic)])
    assert rows(batch.frame) == [(1, 1), (1, 2), (2, 3)]
    assert batch.records == 2


def test_every_row_can_be_traced_to_its_record_and_its_place_in_it() -> None:
    plan = key_count().plan().stage("count")
    (edge,) = plan.inputs
    values = [encode_frames(pl.DataFrame({"auction": auctions}))[0] for auctions in ([1, 2], [3], [4, 5, 6])]
    places = [(values[0], 3, 1), (b"damaged", 4, 1), (values[1], 9, 2), (values[2], 5, 1)]
    batch = Intake(plan).read([Plain(value, offset, partition, edge.topic) for value, offset, partition in places])
    origin = batch.origin()
    traced = zip(
        [origin.sources[index] for index in origin.source],
        origin.partition.tolist(),
        origin.offset.tolist(),
        origin.row.tolist(),
        strict=True,
    )
    expected = [(3, 0, 1), (3, 1, 1), (9, 0, 2), (5, 0, 1), (5, 1, 1), (5, 2, 1)]
    assert list(traced) == [
        (TopicPartition(edge.topic, partition), partition, offset, row) for offset, row, partition in expected
    ]


def test_rows_of_several_topics_are_traced_in_the_order_of_the_frame() -> None:
    plan = pass_stage()
    other = InputPlan("people", Format.JSON, {"name": pl.String})
    batch = Intake(replace(plan, inputs=(*plan.inputs, other))).read(
        [Plain(b'{"name": "x"}', 7, 2, "people"), Plain(bid(1), 0), Plain(b'{"name": "y"}', 8, 2, "people")]
    )
    origin = batch.origin()
    assert batch.frame is not None
    assert batch.frame.get_column(PARTITION).to_list() == origin.partition.tolist() == [2, 2, 0]
    assert origin.offset.tolist() == [7, 8, 0]
    assert [batch.touches([partition]) for partition in (0, 1, 2)] == [True, False, True]


def test_the_oldest_time_of_a_batch_is_that_of_any_of_its_partitions() -> None:
    messages = [Plain(bid(1), 0, 0, time_ms=500), Plain(bid(2), 0, 1, time_ms=200), Plain(bid(3), 1, 1, time_ms=300)]
    assert Intake(pass_stage()).read(messages).oldest_ms == 200


def test_an_inner_edge_with_other_columns_stops_the_stage_and_names_the_topic() -> None:
    plan = key_count().plan().stage("count")
    (edge,) = plan.inputs
    (value,) = encode_frames(pl.DataFrame({"former": ["a"]}))
    with pytest.raises(StageStoppedError, match=rf"{edge.topic}: .* has the columns .*former"):
        Intake(plan).read([Plain(value, 0, topic=edge.topic)])


class Unasked(Plain):
    """A message whose key nobody may ask for."""

    def key(self) -> bytes | None:
        raise AssertionError("the key was read")


def test_keys_are_read_only_where_the_input_has_a_use_for_them() -> None:
    plan = pass_stage()
    assert rows(Intake(plan).read([Unasked(bid(7), 0)]).frame) == [(0, 7)]
    with_key = replace(plan.inputs[0], key_column="name")
    frame = Intake(replace(plan, inputs=(with_key,))).read([Plain(bid(7), 0, key=b"seven")]).frame
    assert frame is not None
    assert frame.get_column("name").to_list() == ["seven"]
