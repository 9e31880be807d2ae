"""Event time (R14): minimum, in-band idleness, lateness at arrival, and what a take-over repeats."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from statemgr.watermarks import IDLE, NEVER, Watermarks


def test_an_upstream_that_has_not_spoken_yet_holds_the_watermark() -> None:
    marks = Watermarks(["a", "b"])
    marks.mark("a", 100, "in", 0)
    assert marks.current == NEVER
    assert not marks.late(0)


def test_the_watermark_is_the_least_mark_of_all_upstreams() -> None:
    marks = Watermarks(["a", "b"])
    marks.mark("a", 100, "in", 0)
    marks.mark("b", 70, "in", 1)
    assert marks.current == 70
    assert marks.late(69)
    assert not marks.late(70)


def test_silence_holds_the_watermark_and_idleness_that_is_said_does_not() -> None:
    marks = Watermarks(["a", "b"])
    marks.mark("b", 10, "in", 0)
    marks.mark("a", 100, "in", 1)
    assert marks.current == 10
    marks.mark("b", IDLE, "in", 2)
    assert marks.current == 100


def test_an_upstream_that_comes_back_with_an_earlier_mark_does_not_set_time_back() -> None:
    marks = Watermarks(["a", "b"])
    marks.mark("b", IDLE, "in", 0)
    marks.mark("a", 100, "in", 1)
    marks.mark("b", 20, "in", 2)
    assert marks.current == 100
    marks.mark("a", 200, "in", 3)
    assert marks.current == 100


def test_time_stands_still_when_all_are_idle() -> None:
    marks = Watermarks(["a"])
    marks.mark("a", 100, "in", 0)
    marks.mark("a", IDLE, "in", 1)
    assert marks.current == 100


def test_parked_rows_hold_what_is_sent_on_and_it_never_goes_back() -> None:
    marks = Watermarks(["a"])
    marks.mark("a", 100, "in", 0)
    assert marks.advance_out(held=[60, 80]) == 60
    assert marks.advance_out(held=[50]) is None
    assert marks.advance_out() == 100
    assert marks.advance_out() is None


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 50) | st.just(IDLE)), max_size=12), st.integers(0, 12))
def test_a_successor_that_reads_again_judges_as_the_former_owner_did(said: list[tuple[str, int]], low: int) -> None:
    former = Watermarks("ab")
    judged = []
    for offset, (upstream, mark) in enumerate(said):
        judged.append(former.current)
        former.mark(upstream, mark, "in", offset)
    low = min(low, len(said))
    successor = Watermarks("ab", former.record({"in": low}))
    for offset in range(low, len(said)):
        assert successor.current == judged[offset]
        successor.mark(*said[offset], "in", offset)
    assert successor.current == former.current
