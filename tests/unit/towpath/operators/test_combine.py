from collections import Counter

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemgr.state import TableSpec, json_codec
from tests.unit.towpath.operators.recording import RecordingContext
from towpath.operators import combine
from towpath.operators.arrow_frames import ArrowDecoder, encode_frames
from towpath.operators.combine import FRAMES_BETWEEN, LEAST_ROWS, Combine
from towpath.operators.count import KeyedCount

TABLES = [TableSpec("count", 0, json_codec(int))]
RESERVED = {"__partition": pl.Int32, "__sched_ms": pl.Int64, "__sched_newest_ms": pl.Int64, "__events": pl.Int64}


def frame(keys, **columns):
    """Rows of one task; the user's column is ``k``."""
    data = {"k": keys, "__partition": [0] * len(keys), **columns}
    return pl.DataFrame(data, schema_overrides={"k": pl.Int64, **RESERVED})


def many(*keys):
    """So many rows that merging them is tried."""
    return frame([key for key in keys for _ in range(LEAST_ROWS)])


def over_an_edge(rows):
    """What a stage behind the edge reads, in one batch."""
    decoded = ArrowDecoder({"k": pl.Int64()}).decode([value for each in rows for value in encode_frames(each)])
    assert not decoded.bad
    return decoded.frame.with_columns(pl.lit(0, pl.Int32).alias("__partition"))


def test_rows_of_a_key_become_one_that_says_how_many_they_were():
    rows = Combine(["k"]).process(many(1, 2, 1), RecordingContext([]))
    assert rows.select("k", "__rows").rows() == [(1, 2 * LEAST_ROWS), (2, LEAST_ROWS)]


def test_emit_times_and_events_are_those_of_all_rows():
    times = list(range(LEAST_ROWS))
    rows = Combine(["k"]).process(
        frame([7] * LEAST_ROWS, __sched_ms=times, __events=[3] * LEAST_ROWS), RecordingContext([])
    )
    assert rows.select("__sched_ms", "__sched_newest_ms", "__events").rows() == [(0, LEAST_ROWS - 1, 3 * LEAST_ROWS)]


def test_small_frames_go_on_as_they_are():
    few = frame([1] * (LEAST_ROWS - 1))
    assert Combine(["k"]).process(few, RecordingContext([])) is few


def test_where_most_keys_are_distinct_it_is_tried_only_now_and_then():
    operator, distinct = Combine(["k"]), frame(list(range(LEAST_ROWS)))
    tried = [operator.process(distinct, RecordingContext([])) is not distinct for _ in range(2 * FRAMES_BETWEEN + 2)]
    assert [index for index, each in enumerate(tried) if each] == [0, FRAMES_BETWEEN + 1]


ROWS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 9), st.none() | st.integers(0, 9), st.none() | st.integers(1, 4)),
    min_size=1,
    max_size=12,
)


@given(
    batches=st.lists(st.tuples(ROWS, st.booleans()), min_size=1, max_size=5),
    columns=st.sets(st.sampled_from(["__sched_ms", "__events"])),
)
def test_a_count_behind_the_edge_is_the_same_whatever_was_merged(batches, columns):
    def sent(rows, merged):
        keys, sched, newest, events = map(list, zip(*rows, strict=True))
        more = {"__sched_ms": sched, "__sched_newest_ms": newest} if "__sched_ms" in columns else {}
        each = frame(keys, **more, **({"__events": events} if "__events" in columns else {}))
        return Combine(["k"]).process(each, RecordingContext([])) if merged else each

    def counted(merge):
        context = RecordingContext(TABLES)
        edge = over_an_edge([sent(rows, merge and merged) for rows, merged in batches])
        result = KeyedCount(["k"], "count", "count").process(edge, context).sort("k")
        return result.to_dict(as_series=False), context.table("count")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(combine, "LEAST_ROWS", 1)
        merged = counted(merge=True)
    assert merged == counted(merge=False)
    expected = Counter(row[0] for rows, _ in batches for row in rows)
    assert merged[1] == {str(key).encode(): count for key, count in expected.items()}
