"""Watermarks as records."""

import pytest

from statemgr.errors import CodecError
from towpath.operators.arrow_frames import ArrowDecoder, encode_frames
from towpath.operators.marks import Marks, decode_marks, encode_marks


def test_marks_come_back():
    marks = Marks(8, {3: -5, 0: 2**62})
    assert decode_marks(encode_marks(marks)) == marks


@pytest.mark.parametrize("value", [None, b"", b"TPA1rest"])
def test_what_holds_no_marks(value):
    assert decode_marks(value) is None


@pytest.mark.parametrize("value", [b"TPW1", b"TPW1{}", b'TPW1{"tasks":"x","marks":{}}', b"TPW1\xff"])
def test_damaged_marks_are_an_error(value):
    with pytest.raises(CodecError, match="holds no watermarks"):
        decode_marks(value)


def test_marks_among_rows():
    import polars as pl

    frame = pl.DataFrame({"a": [1, 2]}, schema={"a": pl.Int64})
    values = [encode_marks(Marks(2, {0: 1})), *encode_frames(frame), b"TPW1?"]
    decoded = ArrowDecoder({"a": pl.Int64()}).decode(values)
    assert decoded.frame.rows() == [(1,), (2,)]
    assert decoded.rows.tolist() == [0, 2, 0]
    assert decoded.marks == {0: Marks(2, {0: 1})}
    assert [bad.index for bad in decoded.bad] == [2]
