"""How patterns are written, and what is said of wrong ones."""

from __future__ import annotations

import polars as pl
import pytest

from towpath.query import BatchDependentError, ColumnTypeError, Query, QueryError, UnknownColumnError, cep

SCHEMA = {"k": pl.Int64, "v": pl.Int64, "t": pl.Int64, "note": pl.String, "price": pl.Decimal(9, 2)}
SMALL, BIG = pl.col("v") < 10, pl.col("v") > 100
PATTERN = cep.begin("small", SMALL).times(3).followed_by("big", BIG).within(1000)


def keyed(query=None, **source):
    query = query or Query("app")
    return query.source("in", schema=SCHEMA, **{"event_time": "t", **source}).key_by("k")


def test_what_comes_out():
    found = keyed().match(
        PATTERN, on="t", small=cep.every("small", "v"), note=cep.first("big", "note"), at=cep.last("big", "t")
    )
    assert found.schema == {
        "k": pl.Int64(),
        "match_start": pl.Int64(),
        "match_end": pl.Int64(),
        "small": pl.List(pl.Int64),
        "note": pl.String(),
        "at": pl.Int64(),
    }
    assert list(keyed().match(PATTERN, on="t").schema) == ["k", "match_start", "match_end"]


def test_only_rows_that_fit_a_step_and_what_is_wanted_of_them_cross_the_edge():
    query = Query("app")
    keyed(query).stage("detect").match(PATTERN, on="t", note=cep.first("big", "note")).sink("out")
    source, detect = query.plan().stages
    assert [operator.name for operator in source.operators] == ["require_key", "fit", "keep"]
    assert list(source.inputs[0].schema) == ["k", "v", "t", "note"]
    assert list(detect.inputs[0].schema) == ["k", "t", "note", "pattern.fits"]
    assert [table.name for table in detect.tables] == ["match"]
    assert detect.event_time


def test_what_comes_behind_may_go_by_the_end_of_matches():
    query = Query("app")
    twice = cep.begin("one").followed_by("other").within(5000)
    found = keyed(query).match(PATTERN, on="t").key_by("k").stage("twice")
    found.match(twice, on="match_end", since=cep.first("one", "match_start")).sink("out", key="k")
    assert [stage.name for stage in query.plan().stages] == ["source", "match", "twice"]


def test_a_pattern_reads_as_it_is_written():
    pattern = cep.begin("a").not_next("x").not_followed_by("n").followed_by("b").times(2).consecutive().next("c")
    assert str(pattern) == "a → not x → not n → b → c"
    assert pattern.taking == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("write", "error", "text"),
    [
        (
            lambda: keyed().match(cep.begin("a", SMALL), on="t"),
            QueryError,
            r"no end in time.*end it with .within\(ms\)",
        ),
        (lambda: PATTERN.within(0), QueryError, r"within\(0\), but the time must be positive"),
        (lambda: cep.begin("a").times(0), QueryError, "at least one row"),
        (lambda: cep.begin("a").not_next("b").times(2), QueryError, "behind a step that takes rows, not 'b'"),
        (lambda: cep.begin("a").consecutive(), QueryError, r"belongs behind times\(…\)"),
        (lambda: cep.begin("a").next("a"), QueryError, "has a step 'a' already"),
        (lambda: keyed().match(cep.begin("a").not_next("b").within(1), on="t"), QueryError, "ends with not_next"),
        (lambda: keyed().match(PATTERN, on="t", after_match="skip"), QueryError, "'no_skip' or 'skip_past_last_event'"),
        (lambda: keyed(event_time=None).match(PATTERN, on="t"), QueryError, "match.*source 'in' tells no event time"),
        (lambda: keyed().match(PATTERN, on="tt"), UnknownColumnError, "unknown column 'tt'; did you mean 't'"),
        (lambda: keyed().match(PATTERN, on="note"), ColumnTypeError, "'note' is String, and event time is Int64"),
        (lambda: keyed().match(PATTERN, on="t", k=cep.last("big", "v")), QueryError, "have a column 'k' already"),
        (lambda: keyed().match(PATTERN, on="t", x=cep.last("bgi", "v")), QueryError, "no step 'bgi'.*mean 'big'"),
        (lambda: keyed().match(PATTERN, on="t", x=cep.last("big", "w")), UnknownColumnError, "unknown column 'w'"),
        (lambda: keyed().match(PATTERN, on="t", x=cep.last("big", "price")), ColumnTypeError, "can't be kept in state"),
        (lambda: keyed().match(PATTERN, on="t", __x=cep.last("big", "v")), QueryError, "reserved"),
        (
            lambda: keyed().match(cep.begin("a", pl.col("w") > 1).within(1), on="t"),
            UnknownColumnError,
            "step 'a': unknown column 'w'",
        ),
        (lambda: keyed().match(cep.begin("a", pl.col("v")).within(1), on="t"), ColumnTypeError, "step 'a'"),
        (
            lambda: keyed().match(cep.begin("a", (pl.col("v") > 1).shift(1)).within(1), on="t"),
            BatchDependentError,
            "other rows of the batch",
        ),
    ],
)
def test_what_is_wrong_is_said_when_it_is_written(write, error, text):
    with pytest.raises(error, match=text):
        write()


def test_a_pattern_can_not_have_more_steps_than_there_are_bits():
    pattern = cep.begin("0")
    for number in range(1, 62):
        pattern = pattern.next(str(number))
    with pytest.raises(QueryError, match="has 62 steps"):
        pattern.next("62")
