"""JSON records as somebody may write them: good ones, odd ones, and broken ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import polars as pl
from hypothesis import strategies as st

NAMES = ["a", "b", "price", "auction", "sched_ms", "", "ä", "sixteen_bytes_it", "n" * 47, "n" * 48, "n" * 60]

INTEGERS = [pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32]
TYPES = [*INTEGERS, pl.Float64, pl.Boolean, pl.String]

_BOUNDS = [sign * 2**bits + by for bits in (7, 8, 15, 16, 31, 32, 53, 63, 64) for sign in (1, -1) for by in (-1, 0, 1)]
_WRITTEN_EDGES = """
    0 -0 00 01 -01 -00 0.0 -0.0 0.5 -0.5 00.5 .5 5. 5.e1 -.5 - + +1 -+1 1- 1e 1e+ 1e- 1e5 1E5 1e+5 1e-5 -1e5 0e5 -0e5
    1e22 1e23 1e-22 1e-23 1.5e22 1.5e-22 123456789012345e22 1e308 1e309 -1e309 1e400 1e-400 1e0005 1e00022 1e9999 0e999
    99999999999999999 999999999999999999 -999999999999999999 9999999999999999999 -9999999999999999999
    123456789012345678901234567890 1.23456789012345 1.234567890123456 12345678.9012345 1234567.89012345678
    0.000000000000001 0.0000000000000001 0.30000000000000004 9007199254740993 9007199254740993.0 1_0 0x1 1a 1.5.5 1e5e5
    NaN Infinity -Infinity 5e-324 2.2250738585072014e-308 1.7976931348623157e308 123456789012345.6 1234567890123456.7
"""
EDGES = [*_WRITTEN_EDGES.split(), *map(str, _BOUNDS)]
"""Numbers at which a reader of numbers may go wrong, and what only looks like one."""


def _digits(least: int, most: int) -> st.SearchStrategy[str]:
    return st.text("0123456789", min_size=least, max_size=most)


_POWERS = st.one_of(
    st.just(""), st.builds("{}{}{}".format, st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), _digits(0, 4))
)
_SIGNS = st.sampled_from(["", "", "-"])
_FRACTIONS = st.one_of(st.just(""), _digits(0, 20).map(".{}".format))

numbers: st.SearchStrategy[bytes] = st.one_of(
    st.sampled_from(EDGES),
    st.integers(-(2**64), 2**64).map(str),
    st.integers(0, 200).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**6), 10**6).map(lambda cents: f"{cents / 100:.2f}"),
    st.builds("{}{}{}{}".format, _SIGNS, _digits(1, 20), _FRACTIONS, _POWERS),
).map(str.encode)

strings: st.SearchStrategy[bytes] = st.one_of(
    st.text(st.characters(min_codepoint=32, max_codepoint=127), max_size=40).map(json.dumps).map(str.encode),
    st.text("abc /:?=", max_size=40).map(json.dumps).map(str.encode),
    st.text(max_size=8).map(json.dumps).map(str.encode),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8).map(
        lambda text: json.dumps(text, ensure_ascii=False).encode()
    ),
    st.sampled_from([rb'"\ud800"', rb'"\ud83d\ude00"', rb'"\x"', rb'"\u12"', rb'"\/\b\f\n\r\t\\\""', b'"\\"', b"'a'"]),
    st.sampled_from([b'"\x7f"', b'"\x1f"', b'"\n"', b'"\x00"', b'"\xff"', b'"\xed\xa0\x80"', b'"', b'"\\', b'"a']),
)

literals = st.sampled_from([b"true", b"false", b"null", b"True", b"nul", b"nullx", b"tru", b"truefalse", b""])

blanks = st.sampled_from([b"", b"", b"", b"", b" ", b"\n", b"\r\n\t ", b" " * 20, b"\x0b", b"\xc2\xa0"])


def _list(items: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(items) + b"]"


def _object(members: Sequence[tuple[bytes, bytes]]) -> bytes:
    return b"{" + b",".join(name + b":" + value for name, value in members) + b"}"


values: st.SearchStrategy[bytes] = st.recursive(
    st.one_of(numbers, strings, literals),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(_list),
        st.lists(st.tuples(strings, inner), max_size=3).map(_object),
        st.tuples(st.integers(1, 70), inner).map(lambda nested: b"[" * nested[0] + nested[1] + b"]" * nested[0]),
    ),
    max_leaves=4,
)


def fitting(dtype: Any) -> st.SearchStrategy[bytes]:
    """Values of a column of this type, as most of them are."""
    if dtype is pl.Boolean:
        return st.sampled_from([b"true", b"false"])
    if dtype is pl.String:
        return st.text("abcdefgh -:/", max_size=20).map(lambda text: f'"{text}"'.encode())
    return st.integers(0, 127).map(lambda number: str(number).encode())


@st.composite
def members(draw: st.DrawFn, schema: dict[str, Any]) -> tuple[bytes, bytes]:
    """One name and its value."""
    name = draw(st.sampled_from([*schema, *schema, *NAMES]))
    written = json.dumps(name, ensure_ascii=False)
    if draw(st.integers(0, 15)) == 0:
        written = '"' + "".join(f"\\u{ord(letter):04x}" for letter in name) + '"'
    common = fitting(schema.get(name, pl.Int64))
    return written.encode(), draw(st.one_of(common, common, common, st.just(b"null"), values))


@st.composite
def objects(draw: st.DrawFn, schema: dict[str, Any]) -> bytes:
    """A flat object, or almost one."""
    found = draw(st.lists(members(schema), max_size=5))
    if draw(st.booleans()):
        return _object(found)
    blank = [draw(blanks) for _ in range(4)]
    between = blank[0] + b"," + blank[1]
    inside = between.join(name + blank[2] + b":" + blank[3] + value for name, value in found)
    return blank[3] + b"{" + blank[0] + inside + blank[1] + b"}" + blank[2]


@st.composite
def damaged(draw: st.DrawFn, schema: dict[str, Any]) -> bytes:
    """An object after some bytes were changed, or the rest was cut off."""
    record = bytearray(draw(objects(schema)))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(record)))
        match draw(st.sampled_from(["cut", "set", "insert", "drop"])):
            case "cut":
                del record[at:]
            case "set":
                record[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
            case "insert":
                record[at:at] = draw(st.one_of(st.binary(max_size=3), st.sampled_from([b'"', b",", b"\\", b"}", b"0"])))
            case "drop":
                del record[at : at + draw(st.integers(1, 4))]
    return bytes(record)


def records(schema: dict[str, Any]) -> st.SearchStrategy[bytes | None]:
    """What may lie in a topic of this schema."""
    whole = objects(schema)
    return st.one_of(
        whole,
        whole,
        whole,
        damaged(schema),
        values,
        st.none(),
        st.just(b""),
        st.binary(max_size=6),
        st.tuples(whole, st.one_of(values, blanks)).map(b"".join),
    )


schemas: st.SearchStrategy[dict[str, Any]] = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(TYPES), max_size=5)

keys = st.one_of(st.none(), st.just(b""), st.text(max_size=4).map(str.encode), st.sampled_from([b"k", b"key", b"\xff"]))
