"""Patterns in batches of many keys: state, timers, late rows."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemgr.errors import CodecError
from tests.harness.patterns import LETTERS, Described, Found, Row, Step, patterns
from tests.unit.towpath.operators.recording import RecordingContext, lists_spec
from towpath.operators.matching import Fit, InTime, PatternMatch
from towpath.operators.pattern import Automaton, Begun, Slot

TABLES = [lists_spec("match", note=Begun)]
END = 10**6
PAIR = Described((Step("begin", "a"), Step("followed_by", "b")), 100)
SILENCE = Described((Step("begin", "a"), Step("not_followed_by", "b")), 100)


class Search:
    """The operators of one stage."""

    def __init__(self, pattern: Described, context: RecordingContext | None = None) -> None:
        written = pattern.written()
        takes = written.takes()
        slots = [Slot("every", number, 2) for number, take in enumerate(takes) if take.fits]
        every = any(take.looks_at_all_rows for take in takes)
        values = dict.fromkeys(pattern.measures(), pl.List(pl.Int64))
        automaton = Automaton(takes, pattern.within, slots, skip_past=pattern.skip)
        self.fit = Fit([step.conditions for step in written.steps], all_rows=every)
        self.match = PatternMatch({"k": pl.Int64()}, "t", ["number"], automaton, values, "match")
        self.context = context or RecordingContext(TABLES, 2)

    def take(self, rows, watermark=None) -> Search:
        """Rows: key, event time, letter, number; odd keys belong to task 1."""
        columns = {"k": pl.Int64, "t": pl.Int64, "letter": pl.String, "number": pl.Int64, "__partition": pl.Int32}
        frame = pl.DataFrame([(*row, row[0] % 2) for row in rows], schema=columns, orient="row")
        if watermark is not None:
            frame = frame.with_columns(pl.lit(watermark, pl.Int64).alias("__watermark"))
        frame = InTime("t").process(self.fit.process(frame, self.context), self.context)
        assert self.match.process(frame, self.context).height == 0
        return self

    def close(self, watermark=END, most=1000):
        """Key and match of what is certain then, task by task."""
        frames = [self.match.close(partition, watermark, self.context, most) for partition in (0, 1)]
        found = pl.concat(frames).select(pl.exclude("__partition", "match_start", "match_end", "k"))
        heads = pl.concat(frames).select("k", "match_start", "match_end").rows()
        return [
            (key, Found(start, end, tuple(map(tuple, values))))
            for (key, start, end), values in zip(heads, found.rows(), strict=True)
        ]


def test_a_match_is_of_rows_of_one_key():
    search = Search(PAIR).take([(1, 0, "a", 0), (2, 5, "b", 1), (1, 9, "b", 2), (1, 9, "c", 3)])
    assert search.close() == [(1, Found(0, 9, ((0,), (2,))))]
    assert search.context.table("match") == {}


def test_rows_are_judged_when_no_earlier_one_can_come_any_more():
    search = Search(PAIR).take([(1, 9, "b", 0)])
    assert search.match.timers.of(1, search.context).earliest == 10
    assert search.close(9) == []
    search.take([(1, 9, "a", 1), (1, 8, "a", 2)])
    assert search.close(10) == [(1, Found(8, 9, ((2,), (0,))))]
    assert search.match.timers.of(1, search.context).earliest == 109
    assert search.match.timers.of(0, search.context).earliest is None


def test_a_match_that_waits_comes_by_a_timer_which_is_found_again_in_the_state():
    search = Search(SILENCE).take([(2, 7, "a", 0), (2, 50, "c", 1)])
    assert search.close(60) == []
    again = Search(SILENCE, search.context)
    assert again.match.timers.of(0, again.context).earliest == 107
    assert again.close(106) == []
    assert again.close(107) == [(2, Found(7, 107, ((0,),)))]
    assert again.context.table("match") == {}


def test_late_rows_are_left_out_and_counted_if_they_fit_a_step():
    search = Search(PAIR).take([(1, 50, "a", 0)], 50)
    search.take([(1, 59, "b", 1), (1, 59, "c", 2), (1, 60, "b", 3)], 60)
    assert search.context.late_rows == 1
    assert search.close() == [(1, Found(50, 60, ((0,), (3,))))]


def test_entries_go_off_a_few_at_a_time():
    search = Search(PAIR).take([(key, key, "ab"[at], at) for key in range(0, 20, 2) for at in (0, 1)])
    found = [search.close(most=3) for _ in range(4)]
    assert [len(each) for each in found] == [3, 3, 3, 1]


def test_null_fits_nothing():
    search = Search(PAIR).take([(1, 0, "a", 0), (1, 1, None, 1), (1, 2, "b", 2)])
    assert len(search.close()) == 1


def test_a_step_without_conditions_is_fit_by_every_row():
    frame = pl.DataFrame({"a": [1, None], "__partition": [0, 0]})
    found = Fit([(), (pl.col("a") > 0, pl.col("a") < 2)], all_rows=False).process(frame, RecordingContext())
    assert found.get_column("pattern.fits").to_list() == [3, 1]
    assert Fit([()], all_rows=False).process(frame.clear(), RecordingContext()).height == 0


def test_what_another_pattern_has_begun_is_refused_by_name():
    search = Search(PAIR).take([(1, 0, "a", 0)])
    search.close(1)
    other = Described((Step("begin", "a"), Step("next", "c"), Step("next", "b")), 100)
    with pytest.raises(CodecError, match="another pattern has begun: the query has changed"):
        Search(other, search.context).take([(1, 5, "b", 1)])


ARRIVING = st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 6), st.sampled_from(LETTERS))
BATCHES = st.lists(st.tuples(st.lists(ARRIVING, min_size=3, max_size=10), st.booleans()), min_size=2, max_size=5)


@settings(deadline=None)
@given(patterns(), BATCHES)
def test_matches_do_not_depend_on_batches_or_on_the_order_of_arrival(pattern, batches):
    search, now, number = Search(pattern), 0, 0
    rows: dict[int, list[Row]] = {}
    found = []
    for batch, closes in batches:
        taken = []
        for key, back, on, letter in batch:
            now, number = now + on, number + 1
            taken.append((key, max(0, now - back), letter, number))
            rows.setdefault(key, []).append(Row(*taken[-1][1:]))
        search.take(taken)
        if closes:
            found += search.close(max(0, now - 12))
    found += search.close()
    for key, each in rows.items():
        ordered = sorted(each, key=lambda row: row.time)
        assert [match for of, match in found if of == key] == pattern.search(ordered)
    assert search.context.table("match") == {}
