"""Values survive their codec, and what is not a value is refused by name."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemgr.codecs import bytes_codec, json_codec
from statemgr.errors import CodecError


class Point(msgspec.Struct):
    x: int
    tags: list[str] = []


@dataclass
class Pair:
    left: float
    right: dict[str, int]


@given(st.integers())
def test_integers_survive(value):
    codec = json_codec(int)
    assert codec.decode(codec.encode(value)) == value


@pytest.mark.parametrize(
    ("kind", "value"),
    [(Point, Point(1, ["a"])), (Pair, Pair(0.5, {"k": 1})), (list[int], [1, 2]), (str, "ä"), (float, 1.5)],
)
def test_nested_types_survive(kind, value):
    codec = json_codec(kind)
    assert codec.decode(codec.encode(value)) == value


def test_bytes_are_kept_as_they_are():
    assert bytes_codec().decode(bytes_codec().encode(b"\x00\xff")) == b"\x00\xff"


@pytest.mark.parametrize("data", [b"", b"x", b'"1"', b"1.5", b"null", b"\xff", b"1 2"])
def test_other_bytes_are_a_codec_error(data):
    with pytest.raises(CodecError, match="not JSON of"):
        json_codec(int).decode(data)


@pytest.mark.parametrize("value", [object(), {1: object()}])
def test_a_value_without_json_form_is_a_codec_error(value):
    with pytest.raises(CodecError, match="does not encode"):
        json_codec(int).encode(value)


def test_text_in_a_bytes_table_is_a_codec_error():
    with pytest.raises(CodecError, match="takes bytes, not str"):
        bytes_codec().encode("text")


def test_a_type_without_json_form_is_refused_when_the_table_is_made():
    with pytest.raises(CodecError, match="no JSON form"):
        json_codec(int | Point | Pair)
