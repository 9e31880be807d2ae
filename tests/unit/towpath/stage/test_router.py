from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemgr.kafka.ports import TopicInfo, TopicSpec
from statemgr.partitioner import partition_of
from statemgr.testing.kafka import FakeKafka
from tests.unit.towpath.stage.plans import SINK
from towpath.query.plan import PARTITION, SCHED, Edge, Format, OutputPlan
from towpath.stage.router import MAX_RECORD_BYTES, RANDOM_ROWS, Router, Sent, record_limit
from towpath.testing.records import Record, read_records


class Desk:
    """A router, and the topic that it writes."""

    def __init__(self, edge: Edge, form: Format = Format.JSON, key: tuple[str, ...] = (), partitions: int = 4) -> None:
        self.form = form
        self.kafka = FakeKafka()
        self.kafka.admin().create([TopicSpec(SINK, partitions)], 1, 1.0)
        self.router = Router(OutputPlan(SINK, form, edge, key, partitions), TopicInfo(SINK, partitions, "id", {}))
        self.producer = self.kafka.producer(transactional_id=None, name="router")

    def send(self, frame: pl.DataFrame) -> Sent:
        return self.router.send(frame, self.producer)

    def found(self) -> list[Record]:
        return read_records(self.kafka, SINK, self.form)

    def by_partition(self, column: str) -> dict[int, list[Any]]:
        found: dict[int, list[Any]] = {}
        for record in self.found():
            found.setdefault(record.partition, []).append(record.value[column])
        return found


def frame(partitions: list[int] | int = 0, **columns: list[Any]) -> pl.DataFrame:
    height = len(next(iter(columns.values())))
    owners = partitions if isinstance(partitions, list) else [partitions] * height
    return pl.DataFrame(columns).with_columns(pl.Series(PARTITION, owners, dtype=pl.Int32))


@pytest.mark.parametrize("form", [Format.JSON, Format.ARROW])
@given(keys=st.lists(st.integers(-5, 5), min_size=1, max_size=60))
def test_a_hash_edge_puts_each_key_where_java_would_and_keeps_the_order(form: Format, keys: list[int]) -> None:
    desk = Desk(Edge.HASH, form, ("k",))
    desk.send(frame(k=keys, n=list(range(len(keys)))))
    expected: dict[int, list[int]] = {}
    for number, key in enumerate(keys):
        expected.setdefault(partition_of(str(key).encode(), 4), []).append(number)
    assert desk.by_partition("n") == expected


def test_a_sink_record_has_the_text_of_its_key() -> None:
    desk = Desk(Edge.HASH, key=("k", "name"))
    desk.send(frame(k=[1], name=['a"b']))
    assert [json.loads(record.key or b"") for record in desk.found()] == [[1, 'a"b']]


@given(owners=st.lists(st.integers(0, 9), min_size=1, max_size=60), partitions=st.integers(1, 10))
def test_a_forward_edge_keeps_the_partition_and_the_order(owners: list[int], partitions: int) -> None:
    desk = Desk(Edge.FORWARD, partitions=partitions)
    desk.send(frame(owners, n=list(range(len(owners)))))
    expected: dict[int, list[int]] = {}
    for number, owner in enumerate(owners):
        expected.setdefault(owner % partitions, []).append(number)
    assert desk.by_partition("n") == expected


def test_a_random_edge_spreads_a_large_batch_over_all_partitions() -> None:
    desk = Desk(Edge.RANDOM)
    desk.send(frame(n=list(range(4 * RANDOM_ROWS))))
    assert {partition: len(rows) for partition, rows in desk.by_partition("n").items()} == dict.fromkeys(
        range(4), RANDOM_ROWS
    )


def test_a_random_edge_gives_small_batches_to_the_partitions_in_turn() -> None:
    desk = Desk(Edge.RANDOM)
    for number in range(8):
        desk.send(frame(n=[number]))
    assert desk.by_partition("n") == {0: [0, 4], 1: [1, 5], 2: [2, 6], 3: [3, 7]}


@given(sizes=st.lists(st.integers(1, 3 * RANDOM_ROWS), min_size=1, max_size=4))
def test_a_random_edge_loses_and_doubles_nothing(sizes: list[int]) -> None:
    desk = Desk(Edge.RANDOM, Format.ARROW)
    rows = iter(range(sum(sizes)))
    for size in sizes:
        desk.send(frame(n=[next(rows) for _ in range(size)]))
    assert sorted(row for part in desk.by_partition("n").values() for row in part) == list(range(sum(sizes)))


def test_an_inner_edge_packs_the_rows_for_a_partition_into_one_record() -> None:
    desk = Desk(Edge.HASH, Format.ARROW, ("k",))
    desk.send(frame(k=[1] * 100, **{SCHED: list(range(100))}))
    assert {record.offset for record in desk.found()} == {0}
    assert desk.found()[99].value == {"k": 1, SCHED: 99}


def test_sent_tells_the_bytes_that_were_produced() -> None:
    desk = Desk(Edge.HASH, key=("k",))
    sent = desk.send(frame(k=[1, 22]))
    assert sent == Sent(sum(len(record.key or b"") + len(b'{"k":1}') for record in desk.found()) + 1, [])


@pytest.mark.parametrize("edge", Edge)
def test_a_row_that_no_record_can_hold_is_given_back_and_the_others_are_sent(edge: Edge) -> None:
    desk = Desk(edge, key=("n",) if edge is Edge.HASH else ())
    sent = desk.send(frame([5, 6, 7], n=[1, 2, 3], text=["a", "b" * MAX_RECORD_BYTES, "c"]))
    assert [row.partition for row in sent.too_large] == [6]
    assert json.loads(sent.too_large[0].value)["n"] == 2
    assert sorted(record.value["n"] for record in desk.found()) == [1, 3]


def incompressible(size: int) -> str:
    return np.random.default_rng(1).integers(0, 256, size // 2, dtype=np.uint8).tobytes().hex()


def test_an_inner_edge_splits_what_is_too_large_for_one_record() -> None:
    desk = Desk(Edge.HASH, Format.ARROW, ("k",), partitions=1)
    sent = desk.send(frame(k=[1] * 4, n=[0, 1, 2, 3], text=[incompressible(400_000)] * 4))
    assert sent.too_large == []
    assert desk.by_partition("n") == {0: [0, 1, 2, 3]}
    assert len({record.offset for record in desk.found()}) > 1


def test_an_inner_edge_gives_back_only_the_row_that_is_too_large_by_itself() -> None:
    desk = Desk(Edge.HASH, Format.ARROW, ("k",), partitions=1)
    texts = ["a", "b", incompressible(3_000_000), "d", "e"]
    sent = desk.send(frame([4] * 5, k=[1] * 5, n=list(range(5)), text=texts))
    assert [(row.partition, json.loads(row.value)["n"]) for row in sent.too_large] == [(4, 2)]
    assert desk.by_partition("n") == {0: [0, 1, 3, 4]}


def test_bytes_are_written_as_they_are_keys_tombstones_and_all() -> None:
    desk = Desk(Edge.HASH, Format.BYTES, ("key",))
    desk.send(frame(key=[b"a", b"\xff"], value=[None, b"\x00"]))
    assert {(record.key, record.value) for record in desk.found()} == {(b"a", None), (b"\xff", b"\x00")}


def test_bytes_without_a_key_are_spread_in_turn() -> None:
    desk = Desk(Edge.HASH, Format.BYTES, ("key",))
    desk.send(
        pl.DataFrame(
            {"key": [None, None, b"a"], "value": [b"1", b"2", b"3"], PARTITION: [0, 0, 0]},
            schema={"key": pl.Binary, "value": pl.Binary, PARTITION: pl.Int32},
        )
    )
    found = sorted((record.key or b"", record.value) for record in desk.found())
    assert found == [(b"", b"1"), (b"", b"2"), (b"a", b"3")]


@pytest.mark.parametrize("columns", [{"k": [1, None, 3]}, {"k": [1, None, 3], "name": ["a", "b", None]}])
def test_a_sink_row_without_a_complete_key_becomes_a_record_without_a_key(columns: dict[str, list[Any]]) -> None:
    desk = Desk(Edge.HASH, key=tuple(columns))
    assert desk.send(frame(**columns)).too_large == []
    keyless = [record.value["k"] for record in desk.found() if record.key is None]
    assert sorted(record.value["k"] or 0 for record in desk.found()) == [0, 1, 3]
    assert keyless == [None] if len(columns) == 1 else {None, 3} == set(keyless)


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        ({}, MAX_RECORD_BYTES),
        ({"max.message.bytes": "1048588"}, MAX_RECORD_BYTES),
        ({"max.message.bytes": "50000"}, 49_000),
    ],
)
def test_the_limit_of_a_record_is_what_client_and_topic_both_take(config: dict[str, str], limit: int) -> None:
    assert record_limit(TopicInfo(SINK, 1, "id", config)) == limit
