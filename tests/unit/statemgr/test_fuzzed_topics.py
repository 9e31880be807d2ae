"""Whatever stands in a topic of the library's own, it is understood, or one error names it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemgr.changelog import restore
from statemgr.codecs import json_codec
from statemgr.control.records import (
    Assigned,
    ControlRecord,
    Desired,
    Done,
    Fenced,
    Layer,
    Leader,
    Manner,
    Released,
    Tenure,
    control_key,
    decode_control,
    encode_control,
)
from statemgr.control.view import ControlView
from statemgr.errors import CodecError
from statemgr.kafka.ports import TopicSpec
from statemgr.layout import PROGRESS_KEY, changelog_key
from statemgr.migration.record import decode_migration
from statemgr.progress import InputProgress, Progress, decode_progress, encode_progress
from statemgr.store import MemoryBackend
from statemgr.store.base import decode_meta
from statemgr.testing.kafka import FakeKafka
from statemgr.types import TaskId

pytestmark = pytest.mark.slow

RECORDS: list[ControlRecord] = [
    Leader(3, "c"),
    Desired("count", 2, Manner(), 3),
    Assigned("count", 1, 2, "a", (Tenure("b", 1),), (Layer("b", 1, "b:1"),), Manner(), 3),
    Released("count", 1, 1, "b", True, 7, Progress(1, {"bids": InputProgress(1, 2, {"k": (1, 0)})}), {3: 5}),
    Done("count", 1, 2, "a"),
    Fenced("count", "b", 3),
]
PROGRESS = encode_progress(Progress(2, {"bids": InputProgress(5, 9, {"k": (5, 0)}, "id")}, {"source/0": 17}))
DEEP = [b"[" * 200_000, b'{"a":' * 200_000, b'{"type":"leader","term":1,"name":"c","x":' + b"[" * 200_000]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


def spoilt(whole: bytes) -> st.SearchStrategy[bytes]:
    """A record with some bytes replaced, or cut off."""

    def spoil(parts: tuple[int, bytes, int]) -> bytes:
        place, other, gone = parts
        return whole[:place] + other + whole[place + gone :]

    return st.tuples(st.integers(0, len(whole)), st.binary(max_size=6), st.integers(0, 12)).map(spoil)


def changed(record: dict[str, Any]) -> st.SearchStrategy[bytes]:
    """A record with one field's value replaced by any other."""

    def change(parts: tuple[str, Any]) -> bytes:
        name, value = parts
        return json.dumps({**record, name: value}).encode()

    return st.tuples(st.sampled_from(sorted(record)), JSON).map(change)


VALUES = st.one_of(
    st.none(),
    st.binary(max_size=40),
    JSON.map(lambda value: json.dumps(value).encode()),
    st.sampled_from(DEEP),
    *(spoilt(encode_control(record)) for record in RECORDS),
    *(changed(msgspec.to_builtins(record)) for record in RECORDS),
)
KEYS = st.one_of(st.none(), st.binary(max_size=12), st.sampled_from([control_key(record) for record in RECORDS]))


@given(KEYS, VALUES)
def test_a_control_record_is_understood_or_stops_its_reader_by_name(key: bytes | None, value: bytes | None) -> None:
    """R19: never passed over, and never a crash, which a supervisor would repeat for ever."""
    view = ControlView()
    try:
        view.apply(5, key, value)
    except CodecError as error:
        assert "not a control record" in str(error)
        assert len(str(error)) < 2000
        assert view == ControlView()
    else:
        record = decode_control(key, value)
        assert decode_control(control_key(record), encode_control(record)) == record


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_sound_record_is_understood(record: ControlRecord) -> None:
    ControlView().apply(0, control_key(record), encode_control(record))


@given(
    st.one_of(
        st.binary(max_size=60),
        spoilt(PROGRESS),
        changed(json.loads(PROGRESS)),
        JSON.map(lambda value: json.dumps(value).encode()),
        st.sampled_from(DEEP),
    )
)
def test_a_progress_record_is_understood_or_refused(value: bytes) -> None:
    try:
        found = decode_progress(value)
    except CodecError:
        return
    assert decode_progress(encode_progress(found)) == found


@pytest.mark.parametrize("decode", [decode_migration, decode_meta, json_codec(dict[str, int]).decode])
@given(value=st.binary(max_size=60) | st.sampled_from([*DEEP, b"\x91" * 200_000]))
def test_what_a_store_holds_is_understood_or_refused(decode: Any, value: bytes) -> None:
    try:
        decode(value)
    except CodecError:
        return


TOPIC, TASK = "app.count.changelog", TaskId("count", 0)

OWN_KEYS = [PROGRESS_KEY, changelog_key(1, b"a"), changelog_key(0xFFFE, b"a"), changelog_key(0xFFFF, b"a")]
CHANGES = st.tuples(
    st.binary(max_size=8) | st.sampled_from(OWN_KEYS),  # a compacted topic takes none without a key
    st.one_of(st.none(), st.binary(max_size=12), st.just(PROGRESS), spoilt(PROGRESS), st.sampled_from(DEEP)),
)


@given(st.lists(CHANGES, max_size=8))
def test_a_changelog_is_restored_or_its_record_is_named(changes: list[tuple[bytes, bytes | None]]) -> None:
    kafka, backend = FakeKafka(), MemoryBackend()
    kafka.admin().create([TopicSpec(TOPIC, 1, {"cleanup.policy": "compact"})], 1, 1)
    writer = kafka.producer(transactional_id="writer", name="writer")
    writer.init_transactions(1)
    writer.begin()
    for key, value in changes:
        writer.produce(TOPIC, 0, key, value)
    writer.commit(1)
    topic = kafka.admin().describe([TOPIC], 1)[TOPIC]
    try:
        restored = restore(
            {TASK: 1}, backend, kafka, topic, name="reader", clock=kafka.clock, pause=kafka.clock.advance
        )
    except CodecError as error:
        assert TOPIC in str(error)
        return
    assert restored[TASK].records <= len(changes)
    restored[TASK].store.close()
