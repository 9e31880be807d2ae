"""The automaton finds what a brute-force search finds, however rows come and whenever they are judged."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.patterns import LETTERS, Described, Found, Row, Step, patterns
from towpath.operators.pattern import Automaton, Kept, Slot

END = 10**6
NOTHING = Kept(0, [], [])
LAG = 12


def automaton(pattern: Described) -> Automaton:
    takes = pattern.written().takes()
    slots = [Slot("every", number, 2) for number, take in enumerate(takes) if take.fits]
    return Automaton(takes, pattern.within, slots, skip_past=pattern.skip)


def stored(pattern: Described, row: Row) -> list:
    fits = sum(1 << number for number, step in enumerate(pattern.steps) if row.letter in step.letters)
    return [row.time, fits, row.number]


def through_json(kept: Kept) -> Kept:
    return msgspec.json.decode(msgspec.json.encode(kept), type=Kept)


def search(pattern: Described, rows, watermarks=()) -> list[Found]:
    """What is found when rows come in this order; ``watermarks``: number of rows → event time that has come then."""
    found, kept, judge = [], NOTHING, automaton(pattern).judge
    moments = dict(watermarks)
    for number, row in enumerate(rows):
        kept = Kept(kept.seen, [*kept.rows, stored(pattern, row)], kept.runs)
        if number in moments:
            kept, matches = judge(through_json(kept), moments[number])
            found += matches
    kept, matches = judge(kept, END)
    assert (kept.rows, kept.runs) == ([], [])
    return [Found(start, end, tuple(map(tuple, values))) for start, end, values in [*found, *matches]]


def word(letters: str) -> list[Row]:
    """A row a letter, 10 ms apart; a dot is none."""
    return [Row(number * 10, letter, number) for number, letter in enumerate(letters) if letter != "."]


def places(steps, letters, within=1000, skip=False) -> list:
    """Numbers of the rows of each step of each match, for which the search by brute force stands, too."""
    pattern = Described(tuple(steps), within, skip)
    found = search(pattern, word(letters))
    assert found == pattern.search(word(letters))
    return [match.rows for match in found]


A, B = Step("begin", "a"), Step("followed_by", "b")


def test_rows_between_do_not_matter_where_a_step_follows():
    assert places([A, B], "acdb") == [((0,), (3,))]


def test_there_is_one_match_for_each_first_row_which_takes_the_first_that_fits():
    assert places([A, B], "aabb") == [((0,), (2,)), ((1,), (2,))]


def test_a_match_may_bar_all_others_that_it_meets():
    assert places([A, B], "aabbab", skip=True) == [((0,), (2,)), ((4,), (5,))]
    assert places([Step("begin", "a", 2)], "aaaa", skip=True) == [((0, 1),), ((2, 3),)]


def test_the_next_row_is_the_row_just_behind():
    assert places([A, Step("next", "b")], "acbab") == [((3,), (4,))]


def test_a_step_may_take_several_rows():
    assert places([Step("begin", "a", 2), B], "acab") == [((0, 2), (3,))]
    assert places([Step("begin", "a", 2, consecutive=True), B], "acaab") == [((2, 3), (4,))]


def test_a_row_that_must_not_come_ends_it():
    assert places([A, Step("not_followed_by", "c"), B], "acb") == []
    assert places([A, Step("not_followed_by", "c"), B], "cabc") == [((1,), (2,))]
    assert places([A, Step("not_followed_by", "b"), B], "ab") == []
    assert places([A, Step("not_next", "c"), B], "acb") == []
    assert places([A, Step("not_next", "c"), B], "adcb") == [((0,), (3,))]


def test_a_match_that_waits_for_what_must_not_come_is_certain_at_the_end_of_its_time():
    silent = Described((A, Step("not_followed_by", "b")), 25)
    assert search(silent, word("a.b")) == []
    assert search(silent, word("a..b")) == [Found(0, 25, ((0,),))]


@pytest.mark.parametrize(("within", "found"), [(31, 1), (30, 0)])
def test_all_rows_come_less_than_the_bound_after_the_first(within, found):
    assert len(places([A, B], "a..b", within=within)) == found


def test_rows_of_one_time_keep_the_order_in_which_they_came():
    pattern = Described((A, Step("next", "b")), 10)
    assert len(search(pattern, [Row(5, "a", 0), Row(5, "b", 1)])) == 1
    assert search(pattern, [Row(5, "b", 0), Row(5, "a", 1)]) == []


def test_what_can_not_be_completed_any_more_is_not_kept():
    pattern = Described((A, B), 50)
    kept, _ = automaton(pattern).judge(Kept(0, [stored(pattern, Row(0, "a", 0))], []), 49)
    assert len(kept.runs) == 1
    assert automaton(pattern).due(kept) == 50
    assert automaton(pattern).judge(kept, 50)[0].runs == []


ROWS = st.lists(
    st.tuples(st.integers(0, LAG), st.integers(0, 9), st.sampled_from(LETTERS), st.booleans()), min_size=8, max_size=25
)


@settings(deadline=None)
@given(patterns(), ROWS)
def test_it_finds_what_a_search_over_all_rows_finds(pattern, steps):
    rows, watermarks, now = [], {}, 0
    for number, (back, on, letter, judged) in enumerate(steps):
        now += on
        rows.append(Row(max(0, now - back), letter, number))
        if judged:
            watermarks[number] = max(0, now - LAG)
    ordered = sorted(rows, key=lambda row: row.time)
    assert search(pattern, rows, watermarks) == pattern.search(ordered)
