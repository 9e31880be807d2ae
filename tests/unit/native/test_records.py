"""Records as columns say the same as the records they are made of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.native.messages import Message, plain
from towpath_native.records import Records

BYTES = st.one_of(st.none(), st.binary(max_size=6))

MESSAGES = st.lists(
    st.builds(
        Message,
        topic_=st.sampled_from(["a", "b", "ü"]),
        partition_=st.integers(0, 2**31 - 1),
        offset_=st.integers(0, 2**63 - 1),
        value_=BYTES,
        key_=BYTES,
        headers_=st.lists(st.tuples(st.text(max_size=4), BYTES), max_size=3).map(tuple),
        timestamp_=st.tuples(st.integers(0, 2), st.integers(-1, 2**63 - 1)),
    ),
    max_size=8,
)


@settings(max_examples=40)
@given(MESSAGES)
def test_records_hold_what_they_are_made_of(messages):
    records = Records.of(messages)
    assert plain(records) == messages
    assert [plain([records[place]])[0] for place in range(-len(messages), 0)] == messages
    assert len(records) == len(messages)


@settings(max_examples=40)
@given(MESSAGES, st.slices(8))
def test_a_slice_is_records_again(messages, places):
    records = Records.of(messages)[places]
    assert isinstance(records, Records)
    assert plain(records) == messages[places]
    assert plain(records[1:]) == messages[places][1:]


@settings(max_examples=40)
@given(MESSAGES.filter(bool), st.data())
def test_records_at_places_are_those_there(messages, data):
    places = data.draw(st.lists(st.integers(0, len(messages) - 1), max_size=10))
    records = Records.of(messages).at(np.array(places, np.intp))
    assert plain(records) == [messages[place] for place in places]
    assert records.partition.tolist() == [messages[place].partition() for place in places]


def test_each_topic_is_named_once():
    records = Records.of([Message("a"), Message("b"), Message("a")])
    assert records.topics == ["a", "b"]
    assert records.topic.tolist() == [0, 1, 0]


def test_a_header_without_a_value_is_not_one_with_an_empty_value():
    (record,) = Records.of([Message(headers_=(("none", None), ("empty", b""), ("", b"x")))])
    assert record.headers() == [("none", None), ("empty", b""), ("", b"x")]


def test_a_record_without_headers_has_none():
    (record,) = Records.of([Message()])
    assert record.headers() is None


def test_a_place_behind_the_end_is_an_index_error():
    with pytest.raises(IndexError):
        Records.of([Message()])[1]
