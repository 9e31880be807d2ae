"""Operators whose rows pile up under a key: results of all rows, whatever a batch is, and state that is appended to."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemgr.errors import CodecError
from statemgr.layout import list_table, split_changelog_key
from statemgr.lists import CHUNK_ROWS
from tests.unit.towpath.operators.recording import RecordingContext, lists_spec
from tests.unit.towpath.operators.test_expiring import SCHEMA, TTL, cuts, frames, streams, timed
from towpath.operators.enriched import Enriched
from towpath.operators.expiring_lists import ExpiringLists
from towpath.operators.expiry import Expiry
from towpath.operators.growing_rows import GrowingRows
from towpath.operators.interval_join import IntervalJoin, IntervalPairs

TABLES = [lists_spec("t")]
TASKS = 2

BATCHES = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([None, 1, 2, 3, 4, 5, 6, 7, 8])), max_size=30), max_size=6
)
"""Rows: key and value; null makes it a row of the table."""


def enriched(taken="n"):
    return Enriched(pl.col("v").is_null(), ["v", "n"], {"fact": taken})


def frame(rows, start=0):
    return pl.DataFrame(
        {
            "k": [key for key, _ in rows],
            "v": [value for _, value in rows],
            "n": range(start, start + len(rows)),
            "__partition": [key % TASKS for key, _ in rows],
        },
        schema={"k": pl.Int64, "v": pl.Int64, "n": pl.Int64, "__partition": pl.Int32},
    )


def through(parts, context, operator=None):
    """What comes out of each batch."""
    operator, start, found = operator or GrowingRows(["k"], enriched(), "t"), 0, []
    for part in parts:
        found.append(operator.process(frame(part, start), context))
        context.commit()
        start += len(part)
    return found


@given(BATCHES)
def test_every_row_meets_the_tables_row_once_whichever_comes_first(parts):
    context = RecordingContext(TABLES, TASKS)
    got = [row for each in through(parts, context) for row in each.select("k", "n", "fact").rows()]
    facts, waiting, wanted, number = {}, {}, [], 0
    for part in parts:
        newest = {key: at for at, (key, value) in enumerate(part, number) if value is None}
        facts |= newest
        for key in newest:
            wanted += [(key, row, facts[key]) for row in waiting.pop(key, ())]
        for at, (key, value) in enumerate(part, number):
            if value is not None:
                if key in facts:
                    wanted.append((key, at, facts[key]))
                else:
                    waiting.setdefault(key, []).append(at)
        number += len(part)
    assert sorted(got) == sorted(wanted)
    for key in {key for key, _, _ in got}:
        rows = [row for of, row, _ in got if of == key]
        assert rows == sorted(rows)
    kept = {key: [(row[0], row[2]) for row in rows] for key, rows in context.rows("t").items()}
    assert kept == {
        **{str(key).encode(): [(True, at)] for key, at in facts.items()},
        **{str(key).encode(): [(False, at) for at in rows] for key, rows in waiting.items()},
    }


def test_a_row_gets_the_tables_newest_row():
    found = through([[(0, 7)], [(0, None)], [(0, 8), (0, None)], [(0, 9)]], RecordingContext(TABLES, TASKS))
    assert [each.select("v", "fact").rows() for each in found] == [[], [(7, 1)], [(8, 3)], [(9, 3)]]


def test_output_columns_are_those_of_other_keyed_steps():
    (found,) = through([[]], RecordingContext(TABLES, TASKS))
    assert found.columns == ["k", "v", "n", "fact", "__partition", "__events"]


def test_rows_that_wait_are_neither_read_nor_written_again_when_others_come():
    context = RecordingContext(TABLES, 1)
    operator = GrowingRows(["k"], enriched(), "t")
    lists = context.tasks[0].lists("t")
    written = 0
    for number in range(400):
        operator.process(frame([(0, 1)], number), context)
        written += context.commit()
    assert written == 400 + 400 // CHUNK_ROWS
    context.tasks[0].discard()
    operator.process(frame([(0, 1)], 400), context)
    assert lists.chunks.cached_entries == 0
    context.commit()
    found = operator.process(frame([(0, None)], 401), context)
    assert found.get_column("n").to_list() == list(range(401))
    context.commit()
    assert context.rows("t") == {b"0": [[True, None, 401]]}
    with context.tasks[0].store.scan() as pairs:
        assert len(list(pairs)) == 1


def test_a_row_of_the_table_that_says_nothing_new_is_not_written():
    context = RecordingContext(TABLES, 1)
    operator = GrowingRows(["k"], Enriched(pl.col("v").is_null(), ["v"], {"fact": "v"}), "t")
    operator.process(frame([(0, None)]), context)
    assert context.commit() == 1
    operator.process(frame([(0, None), (0, 5)]), context)
    assert context.commit() == 0


def test_a_table_of_another_query_is_told_apart():
    context = RecordingContext(TABLES, TASKS)
    through([[(0, 1)]], context)
    other = GrowingRows(["k"], Enriched(pl.col("v").is_null(), ["v"], {"fact": "v"}), "t")
    with pytest.raises(CodecError, match="rows of other columns than __of_table, v: the query has changed"):
        other.process(frame([(0, 1)]), context)


def test_rows_of_a_join_are_written_once_and_forgotten_a_chunk_at_a_time():
    context = RecordingContext([lists_spec("join")], 1)
    join = IntervalJoin(["k"], IntervalPairs(["l"], {"r": "right.r"}, 0, 1000), "join")
    schema = {
        "k": pl.Int64,
        "join.right": pl.Boolean,
        "join.time": pl.Int64,
        "l": pl.Int64,
        "right.r": pl.Int64,
        "__partition": pl.Int32,
    }
    keys = []
    for number in range(3000):
        join.process(pl.DataFrame([(1, False, number, number, None, 0)], schema=schema, orient="row"), context)
        if number % 20 == 19:
            join.close(0, number, context, 100)
        keys += [key for key, value in context.tasks[0].changes() if value is not None]
        context.commit()
    chunks = [key for key in keys if list_table(split_changelog_key(key)[0]) is not None]
    assert len(keys) - len(chunks) == 3000
    assert len(chunks) < 3000 / CHUNK_ROWS + 3000 / 20 * 2
    (kept,) = context.rows("join").values()
    assert [row[1] for row in kept] == list(range(2000, 3000))


def expected_with_ttl(rows, places):
    """A loop over batches, in which rows of value 0 are the table's: what goes out, and what is kept."""
    newest, life, facts, waiting, out, begin = {}, {}, {}, {}, [], 0
    for part, _ in frames(rows, places):
        batch = []
        for number, (key, value, time, mark) in enumerate(rows[begin : begin + part.height], begin):
            if key in newest and newest[key] + TTL <= mark:
                life[key] = life.get(key, 0) + 1
            newest[key] = max(time, newest.get(key, time))
            batch.append(((key, life.get(key, 0)), value, number))
        for at, value, number in batch:
            if value == 0:
                facts[at] = number
        for at, value, number in batch:
            if value != 0:
                waiting.setdefault(at, []).append(number)
        for at in list(waiting):
            if at in facts:
                out += [(at[0], row, facts[at]) for row in waiting.pop(at)]
        begin += part.height
    kept = {}
    for key in newest:
        at = key, life.get(key, 0)
        rows_kept = [(True, facts[at])] if at in facts else [(False, row) for row in waiting[at]]
        kept[str(key).encode()] = (rows_kept, newest[key])
    return sorted(out), kept


@settings(deadline=None)
@given(streams, cuts, st.booleans())
def test_rows_wait_anew_when_the_state_of_their_key_has_gone(stream, places, closing):
    rows, context = timed(stream), RecordingContext(TABLES, 1)
    growing = Enriched(pl.col("v") == 0, ["v", "n"], {"fact": "n"})
    operator = ExpiringLists(["k"], growing, "t", Expiry(TTL, "t"))
    found = []
    for number, (part, last) in enumerate(frames(rows, places)):
        numbered = part.with_columns(pl.col("__sched_ms").alias("n"))
        found += operator.process(numbered, context).select("k", "n", "fact").rows()
        reached = max(last[3], -(2**62))
        due = operator.timers.of(0, context).earliest
        if closing and number % 2 == 0 and due is not None and due <= reached:
            assert operator.close(0, reached, context, 2).height == 0
        context.commit()
    out, kept = expected_with_ttl(rows, places)
    assert sorted(found) == out
    if not closing:
        lists, heads = context.rows("t"), context.table("t")
        assert {key: ([(row[0], row[2]) for row in lists[key]], heads[key].note) for key in lists} == kept


def test_lists_whose_time_has_gone_leave_nothing_in_the_store():
    context = RecordingContext(TABLES, 1)
    operator = ExpiringLists(["k"], Enriched(pl.col("v") == 0, ["v"], {"fact": "v"}), "t", Expiry(TTL, "t"))
    for number in range(30):
        operator.process(pl.DataFrame([(1, 5, number, number, -1, 0)], schema=SCHEMA, orient="row"), context)
        context.commit()
    assert operator.timers.of(0, context).earliest == 10
    again = ExpiringLists(["k"], Enriched(pl.col("v") == 0, ["v"], {"fact": "v"}), "t", Expiry(TTL, "t"))
    assert again.timers.of(0, context).earliest == 29 + TTL
    operator.close(0, 29 + TTL, context, 100)
    context.commit()
    with context.tasks[0].store.scan() as pairs:
        assert list(pairs) == []
