"""The filter of a copy's keys."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from statemgr.sidecar.key_filter import FilterBuilder

KEYS = st.lists(st.binary(min_size=1, max_size=12), max_size=60)


@given(parts=st.lists(KEYS, max_size=4), size=st.sampled_from([8, 64, 4096]))
@settings(max_examples=20)
def test_a_key_that_is_in_it_is_never_missed(parts, size):
    builder = FilterBuilder()
    for part in parts:
        builder.add(part)
    keys = [key for part in parts for key in part]
    known = builder.build(3, 17, size)
    assert (known.epoch, known.offset, known.keys) == (3, 17, len(keys))
    assert known.may_have(keys).all()


def test_about_one_absent_key_in_a_hundred_passes():
    builder = FilterBuilder()
    builder.add([b"k%d" % number for number in range(20_000)])
    passed = builder.build(1, 1).may_have([b"other%d" % number for number in range(20_000)]).sum()
    assert 50 < passed < 400


def test_its_size_is_bounded_whatever_it_holds():
    builder = FilterBuilder()
    builder.add([b"k%d" % number for number in range(5000)])
    known = builder.build(1, 1, max_bytes=1000)
    assert len(known.bits) == 1000
    assert known.may_have([b"k%d" % number for number in range(5000)]).all()
    assert not known.may_have([b"other%d" % number for number in range(5000)]).all()


def test_an_empty_one_has_nothing():
    assert not FilterBuilder().build(1, 1).may_have([b"k", b"l"]).any()
