"""Which copy is a base: what lies behind its X must be in the log, and the log must be the one that it followed."""

from __future__ import annotations

import pytest

from statemgr.control.records import Layer
from statemgr.faust.decide import BATCH_SPAN_MS, Candidate, Log, flaw, proves, ranked, witness
from statemgr.faust.limits import OWN_TAIL_RECORDS
from statemgr.store.base import StoreMeta

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000
LOG = Log(start=10, end=101, delete_retention_ms=DAY_MS)


def copy(offset: int, *, own: bool = False, complete: bool = True, age_ms: int = 0, holder: str = "a") -> Candidate:
    meta = StoreMeta("w", offset, NOW_MS - age_ms, 1, None)
    return Candidate(Layer(holder, 1), own, meta, complete)


def test_a_copy_at_the_end_is_a_base():
    assert flaw(copy(100), LOG, NOW_MS) is None


def test_a_copy_that_stands_right_before_the_log_s_start_is_a_base():
    assert flaw(copy(9), LOG, NOW_MS) is None


@pytest.mark.parametrize(
    ("candidate", "log", "words"),
    [
        (copy(100), None, "unknown"),
        (copy(100), Log(20, 10), "unknown"),
        (copy(-1), LOG, "nothing is in it"),
        (Candidate(Layer("a", 1), False, None, True), LOG, "nothing is in it"),
        (copy(101), LOG, "ahead of the log"),
        (copy(8), LOG, "starts at 10"),
        (copy(50, age_ms=DAY_MS // 2), LOG, "deletes are certain"),
        (copy(50, age_ms=-3_600_000), LOG, "in the future"),
        (copy(50, age_ms=31_000), Log(10, 101, None), "deletes are certain"),
    ],
)
def test_what_is_no_base_says_why(candidate, log, words):
    assert words in flaw(candidate, log, NOW_MS)


def test_an_idle_table_s_copy_stays_a_base_for_ever():
    """No record lies behind its X, so that no delete can have left the log unseen."""
    assert flaw(copy(100, age_ms=100 * DAY_MS), LOG, NOW_MS) is None


def test_the_shortest_tail_wins():
    assert [each.offset for each in ranked([copy(20), copy(90), copy(60)], LOG, NOW_MS)] == [90, 60, 20]


def test_an_own_copy_with_a_short_tail_wins_over_another_s_without_one():
    own = copy(90, own=True)
    assert ranked([copy(100), own], LOG, NOW_MS)[0] is own


def test_an_own_copy_with_a_long_tail_does_not():
    log = Log(0, OWN_TAIL_RECORDS + 100, DAY_MS)
    other = copy(OWN_TAIL_RECORDS + 50)
    assert ranked([copy(10, own=True), other], log, NOW_MS)[0] is other


def test_an_own_copy_that_needs_others_is_no_better_than_theirs():
    other = copy(100)
    assert ranked([copy(90, own=True, complete=False), other], LOG, NOW_MS)[0] is other


def test_a_witness_agrees_with_itself_and_with_a_later_record_of_its_batch():
    kept = witness(1_000, b"k", b"v")
    assert proves(kept, kept)
    assert proves(kept, witness(1_000 + BATCH_SPAN_MS, b"k", b"v"))


@pytest.mark.parametrize(
    "found",
    [
        None,
        witness(999, b"k", b"v"),
        witness(1_001 + BATCH_SPAN_MS, b"k", b"v"),
        witness(1_000, b"l", b"v"),
        witness(1_000, b"k", None),
        "",
    ],
)
def test_a_witness_disagrees_with_every_other(found):
    assert not proves(witness(1_000, b"k", b"v"), found)


def test_a_copy_without_a_witness_is_never_proven():
    assert not proves("", witness(1_000, b"k", b"v"))


def test_a_witness_tells_records_apart():
    one = witness(1, b"k", b"v")
    assert one == witness(1, b"k", b"v")
    assert (
        len({one, witness(2, b"k", b"v"), witness(1, b"l", b"v"), witness(1, b"k", b"w"), witness(1, b"k", None)}) == 5
    )
