import random

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from statemgr.errors import CodecError, RecordTooLargeError
from towpath.errors import StageStoppedError
from towpath.operators.arrow_frames import ArrowDecoder, decode_frame, encode_frames

FRAME = pl.DataFrame({"a": range(50), "s": [f"x{n}" for n in range(50)], "__sched_ms": range(50)})
SCHEMA = {"a": pl.Int64, "s": pl.String}


def test_a_frame_comes_back_without_the_partition():
    (value,) = encode_frames(FRAME.with_columns(pl.lit(3, pl.Int32).alias("__partition")))
    assert_frame_equal(decode_frame(value), FRAME)


def test_a_frame_that_is_too_large_is_split_in_order():
    values = encode_frames(FRAME, max_bytes=900)
    assert len(values) > 1
    assert all(len(value) <= 900 for value in values)
    assert_frame_equal(pl.concat(map(decode_frame, values)), FRAME)


def test_a_row_that_is_too_large_is_refused_with_its_size():
    with pytest.raises(RecordTooLargeError, match=r"one row takes \d+ bytes, a record may have 100"):
        encode_frames(FRAME.head(1), max_bytes=100)


@pytest.mark.parametrize("value", [None, b"", b"x", b'{"a":1}', b"TPA1", b"TPA1\0\0\0\0garbage"])
def test_garbage_is_refused(value):
    with pytest.raises(CodecError):
        decode_frame(value)


def test_a_truncated_frame_is_refused():
    (value,) = encode_frames(FRAME)
    with pytest.raises(CodecError, match="damaged"):
        decode_frame(value[:-20])


def test_any_changed_byte_is_noticed():
    (value,) = encode_frames(FRAME)
    rng = random.Random(1)
    for _ in range(200):
        changed = bytearray(value)
        position = rng.randrange(len(changed))
        changed[position] ^= 1 << rng.randrange(8)
        with pytest.raises(CodecError):
            decode_frame(bytes(changed))


def test_a_batch_names_poison_records_and_counts_the_rows_of_the_others():
    (first,), (second,) = encode_frames(FRAME.head(3)), encode_frames(FRAME.tail(2))
    decoded = ArrowDecoder(SCHEMA).decode([first, b"x", second])
    assert decoded.rows.tolist() == [3, 0, 2]
    assert [bad.index for bad in decoded.bad] == [1]
    assert_frame_equal(decoded.frame, pl.concat([FRAME.head(3), FRAME.tail(2)]))


def test_columns_that_the_plan_does_not_expect_stop_the_stage_with_the_remedy():
    (value,) = encode_frames(FRAME)
    with pytest.raises(StageStoppedError, match="start the new one under another application name"):
        ArrowDecoder({"a": pl.String, "s": pl.String}).decode([b"damaged", value])


def test_a_batch_of_nothing_but_poison_has_the_expected_columns():
    assert ArrowDecoder(SCHEMA).decode([b"x"]).frame.schema == pl.Schema(SCHEMA)
