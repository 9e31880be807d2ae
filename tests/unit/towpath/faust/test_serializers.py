from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath import faust
from towpath.faust.serializers import Serde, key_from_bytes, key_to_bytes, serde


class Point(faust.Record):
    x: int


@pytest.mark.parametrize(
    ("kind", "serializer", "value", "data"),
    [
        (None, "json", {"a": [1]}, b'{"a":[1]}'),
        (str, "json", "ä", '"ä"'.encode()),
        (Point, "json", Point(3), b'{"x":3}'),
        (Point, "raw", Point(3), b'{"x":3}'),
        (None, "raw", b"\xff", b"\xff"),
        (bytes, "raw", b"\xff", b"\xff"),
        (str, "raw", "ä", "ä".encode()),
        (int, "raw", -5, b"-5"),
        (float, "raw", 0.5, b"0.5"),
        (Decimal, "raw", Decimal("1.50"), b"1.50"),
        (None, "json", None, None),
    ],
)
def test_values_come_back(kind, serializer, value, data):
    side = Serde(kind, serializer)
    assert side.dumps(value) == data
    assert side.loads(data) == value


@pytest.mark.parametrize(
    ("kind", "serializer", "data"),
    [(Point, "json", b"{}"), (Point, "json", None), (int, "raw", b"x"), (str, "raw", b"\xff"), (None, "json", b"{")],
)
def test_bytes_that_are_not_of_the_type_are_refused(kind, serializer, data):
    with pytest.raises(faust.ValidationError):
        Serde(kind, serializer).loads(data)


def test_other_serializers_are_refused_with_those_there_are():
    with pytest.raises(faust.UnsupportedFaustFeatureError, match=r"serializer 'pickle' of topic 't'.*'json' or 'raw'"):
        serde(None, "pickle", "json", "topic 't'")


@given(st.one_of(st.text(st.characters(exclude_categories=["Cs"])), st.integers(-(2**63), 2**63 - 1), st.booleans()))
def test_keys_come_back_by_their_type(key):
    assert key_from_bytes(key_to_bytes(key), type(key)) == key


def test_a_key_can_be_a_record_or_a_tuple_but_not_null():
    assert key_to_bytes(Point(1)) == b'{"x":1}'
    assert key_to_bytes(("a", 1)) == b'["a",1]'
    with pytest.raises(faust.ValidationError, match="null"):
        key_to_bytes(None)
