import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.operators.keys import key_bytes, key_text, null_keys

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def test_a_single_column_is_its_text():
    frame = pl.DataFrame({"i": [-7, 0], "s": ["ä", ""], "b": [True, False], "raw": [b"\xff", b""]})
    assert key_bytes(frame, ["i"]) == [b"-7", b"0"]
    assert key_bytes(frame, ["s"]) == ["ä".encode(), b""]
    assert key_bytes(frame, ["b"]) == [b"true", b"false"]
    assert key_bytes(frame, ["raw"]) == [b"\xff", b""]


def test_several_columns_are_a_json_array_so_that_borders_count():
    frame = pl.DataFrame({"x": ["a", "ab"], "y": ["bc", "c"], "n": [1, 2], "b": [True, False]})
    assert key_bytes(frame, ["x", "y"]) == [b'["a","bc"]', b'["ab","c"]']
    assert key_bytes(frame, ["n", "b", "x"]) == [b'[1,true,"a"]', b'[2,false,"ab"]']


@given(st.lists(st.tuples(TEXT, st.integers(-(2**63), 2**63 - 1), st.booleans()), min_size=1, max_size=5))
def test_a_key_made_by_hand_is_the_key_of_the_row(rows):
    frame = pl.DataFrame(rows, schema={"s": pl.String, "i": pl.Int64, "b": pl.Boolean}, orient="row")
    assert key_bytes(frame, ["s", "i", "b"]) == [key_text(*row) for row in rows]
    assert key_bytes(frame, ["s"]) == [key_text(row[0]) for row in rows]
    assert [tuple(msgspec.json.decode(key)) for key in key_bytes(frame, ["s", "i", "b"])] == rows


def test_null_keys_are_found_in_any_part():
    frame = pl.DataFrame({"a": [1, None, 3], "b": ["x", "y", None]})
    assert null_keys(frame, ["a", "b"]).to_list() == [False, True, True]
    assert null_keys(frame.head(1), ["a", "b"]) is None
    with pytest.raises(ValueError, match="holds a null: a, b"):
        key_bytes(frame, ["a", "b"])
