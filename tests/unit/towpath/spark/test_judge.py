"""What Spark can run is known before there is a session; what it can't is said with step, stage, reason and way out."""

from __future__ import annotations

import narwhals as nw
import polars as pl
import pytest

from towpath.operators.pairs import How
from towpath.query import Query, Stream, Until, Window, agg, expr, hopping, session, tumbling, until
from towpath.spark.errors import NotOnSparkError
from towpath.spark.judge import Finding, Mode, graph_of, judge, output_mode, require, unfit

SCHEMA = {"k": pl.Int64, "t": pl.Int64, "u": pl.Int64, "name": pl.String, "list": pl.List(pl.Int64)}


def query() -> tuple[Query, Stream]:
    made = Query("q")
    return made, made.source("in", schema=SCHEMA, event_time="t")


def finished(made: Query, stream: Stream) -> Query:
    stream.sink("out")
    return made


def why_not(made: Query, mode: Mode = Mode.STREAMING) -> list[Finding]:
    return unfit(judge(made.graph, mode))


def reason(made: Query, mode: Mode = Mode.STREAMING) -> str:
    (finding,) = why_not(made, mode)
    return f"{finding.step} in {finding.stage}: {finding.reason}"


def mode_of(made: Query) -> str:
    return output_mode(made.graph, made.graph.sinks[0])


def test_steps_on_rows_stream() -> None:
    made, rows = query()
    table = pl.DataFrame({"k": [1], "label": ["x"]})
    found = rows.filter(nw.col("k") > 1).with_columns(n=nw.col("k") + 1).explode("list").lookup(table, on="k")
    finished(made, found.select("k", "label", up=expr(polars=pl.col("name").str.to_uppercase(), spark="UPPER(name)")))
    assert why_not(made) == why_not(made, Mode.BATCH) == []
    assert mode_of(made) == "append"


def test_a_calculation_in_polars_alone_is_named_and_a_column_is_not() -> None:
    made, rows = query()
    finished(made, rows.select("k", twice=pl.col("t") * 2, other=pl.col("u")))
    assert reason(made) == reason(made, Mode.BATCH)
    assert reason(made).startswith("select in source: ")
    assert "is written for Polars alone: write it with narwhals, or as towpath.query.expr(" in reason(made)


def test_several_columns_at_once_are_refused() -> None:
    made, rows = query()
    finished(made, rows.select(nw.col("k", "t")))
    assert "is several columns at once: name each of them" in reason(made)


def test_an_aggregate_in_polars_alone_is_refused() -> None:
    made, rows = query()
    finished(made, rows.key_by("k").aggregate(n=agg.sum(pl.col("t") * 2)))
    assert reason(made, Mode.BATCH).startswith("aggregate in aggregate: ")


def test_a_type_that_spark_lacks_is_named() -> None:
    made, rows = query()
    finished(made, rows.with_columns(d=expr(polars=pl.col("t").cast(pl.Duration("ms")), spark="t")).select("k"))
    assert "column 'd': Duration" in reason(made, Mode.BATCH)


@pytest.mark.parametrize("step", ["count", "aggregate", "latest", "top"])
def test_running_results_stream_in_update_mode(step: str) -> None:
    made, rows = query()
    keyed = rows.key_by("k")
    results = {
        "count": lambda: keyed.count(),
        "aggregate": lambda: keyed.aggregate(most=agg.max("t")),
        "latest": lambda: keyed.latest(by="t"),
        "top": lambda: keyed.top(3, by=("name", "t"), descending=(True, False)),
    }
    finished(made, results[step]().filter(nw.col("k") > 0))
    assert why_not(made) == []
    assert mode_of(made) == "update"


def test_running_results_over_running_results_do_not_stream() -> None:
    made, rows = query()
    finished(made, rows.key_by("k").count("n").key_by("n").stage("again").count())
    assert reason(made).startswith("count in again: it would work on the running results of count")
    assert why_not(made, Mode.BATCH) == []


def test_a_union_with_running_results_does_not_stream() -> None:
    made, rows = query()
    counts = rows.key_by("k").count("t")
    finished(made, counts.union(rows.select("k", "t")).stage("both"))
    assert reason(made).startswith("union in both: it would mix the running results of count with other rows")


def test_steps_that_need_an_order_of_texts_or_each_row_or_results_before_do_not_stream() -> None:
    made, rows = query()
    finished(made, rows.key_by("k").top(3, by="name", descending=False))
    assert reason(made).startswith("top in top: it ranks by 'name' in ascending order, which is String")
    made, rows = query()
    finished(made, rows.key_by("k").count(emit="each"))
    assert "a count for each row" in reason(made)
    made, rows = query()
    finished(made, rows.key_by("k").aggregate(previous="_before", n=agg.count()))
    assert "previous" in reason(made)
    assert why_not(made, Mode.BATCH) == []


def test_python_code_with_state_runs_in_batch_only() -> None:
    made, rows = query()
    finished(made, rows.key_by("k").process(lambda row, state: [], schema={"k": pl.Int64}, name="f"))
    assert reason(made).startswith("f in f: it is Python code with state per key")
    assert why_not(made, Mode.BATCH) == []


def test_windows_stream_and_windows_over_windows_too() -> None:
    made, rows = query()
    counts = rows.key_by("k").stage("count").window(hopping(10, 5), on="t").count("n")
    ends = counts.select("n", end=nw.col("window_end"), last=nw.col("window_end") - 1)
    finished(made, ends.key_by("end").stage("most").window(tumbling(5), on="last").highest("n"))
    assert why_not(made) == why_not(made, Mode.BATCH) == []
    assert mode_of(made) == "append"


def test_sessions_stream() -> None:
    made, rows = query()
    finished(made, rows.key_by("k").window(session(10), on="t").count())
    assert why_not(made) == []


def test_windows_by_another_column_than_the_event_time_do_not_stream() -> None:
    made, rows = query()
    finished(made, rows.key_by("k").window(tumbling(10), on="u").count())
    assert "go by 'u', and Structured Streaming knows the event time of the source only, 't'" in reason(made)
    assert why_not(made, Mode.BATCH) == []


def test_windows_by_a_replaced_event_time_do_not_stream() -> None:
    made, rows = query()
    finished(made, rows.with_columns(t=nw.col("u")).key_by("k").window(tumbling(10), on="t").count())
    assert "behind a step that loses the watermark" in reason(made)


def test_windows_until_a_moment_do_not_stream() -> None:
    made, rows = query()
    finished(made, rows.key_by("k").window(until("u")).count())
    assert "until('u')" in why_not(made)[0].reason
    assert why_not(made, Mode.BATCH) == []


def test_a_join_streams_and_windows_behind_it_do_not() -> None:
    made, rows = query()
    joined = rows.key_by("k").stage("join").enrich(rows.key_by("u"), columns={"label": "name"})
    finished(made, joined)
    assert why_not(made) == []
    made, rows = query()
    joined = rows.key_by("k").stage("join").enrich(rows.key_by("u"), columns={"label": "name"})
    finished(made, joined.key_by("label").stage("late").window(tumbling(10), on="t").count())
    assert "behind a step that loses the watermark" in why_not(made)[0].reason


def of_two(made: Query, **more: str) -> tuple[Stream, Stream]:
    """Two sources with event time."""
    other = {"schema": {"id": pl.Int64, "at": pl.Int64, "fact": pl.String}, "event_time": "at", **more}
    return made.source("left", schema=SCHEMA, event_time="t"), made.source("right", stage="other", **other)


def in_windows(left: Stream, right: Stream, window: Window | Until, on: str = "t", how: How = "inner") -> Stream:
    by, at = ({}, {}) if isinstance(window, Until) else ({"on": on}, {"on": "at"})
    facts = right.key_by("id").window(Until("at") if isinstance(window, Until) else window, **at)
    return left.key_by("k").stage("join").window(window, **by).join(facts, columns=["fact"], how=how)


@pytest.mark.parametrize("how", ["inner", "left"])
@pytest.mark.parametrize("window", [tumbling(10), hopping(10, 5)])
def test_a_join_of_windows_streams(window: Window, how: How) -> None:
    made = Query("q")
    finished(made, in_windows(*of_two(made), window, how=how))
    assert why_not(made) == why_not(made, Mode.BATCH) == []
    assert mode_of(made) == "append"


def test_a_join_of_windows_by_another_column_than_the_event_time_does_not_stream() -> None:
    made = Query("q")
    finished(made, in_windows(*of_two(made), tumbling(10), on="u"))
    assert "go by 'u', and Structured Streaming knows the event time of the source only, 't'" in why_not(made)[0].reason
    assert why_not(made, Mode.BATCH) == []


def test_a_join_of_windows_that_rows_end_does_not_stream() -> None:
    made = Query("q")
    finished(made, in_windows(*of_two(made), until("t")))
    assert "a moment of their rows (until(…))" in why_not(made)[0].reason
    assert why_not(made, Mode.BATCH) == []


def test_windows_behind_a_join_of_windows_do_not_stream() -> None:
    made = Query("q")
    joined = in_windows(*of_two(made), tumbling(10)).select("k", last=nw.col("window_end") - 1)
    finished(made, joined.key_by("k").stage("late").window(tumbling(10), on="last").count())
    assert "behind a step that loses the watermark" in why_not(made)[0].reason


def test_rows_near_each_other_in_time_are_joined_by_services_alone() -> None:
    made = Query("q")
    left, right = of_two(made)
    joined = left.key_by("k").join(right.key_by("id"), on=("t", "at"), within=(0, 10), columns=["fact"])
    finished(made, joined)
    assert reason(made, Mode.BATCH) == "join in join: it is a step that only services know"


def test_running_results_behind_a_join_do_not_stream() -> None:
    made, rows = query()
    joined = rows.key_by("k").stage("join").enrich(rows.key_by("u"), columns={"label": "name"})
    finished(made, joined.key_by("label").stage("count").count())
    assert "gives running results (update mode), and enrich before it gives final ones" in reason(made)


def test_the_error_names_step_stage_reason_and_way_out() -> None:
    made, rows = query()
    finished(made, rows.key_by("k").stage("best").count(emit="each"))
    with pytest.raises(NotOnSparkError) as refused:
        require(made.graph, Mode.STREAMING, "my.query")
    assert str(refused.value) == (
        "my.query can't run on Spark in streaming mode: 'count' in stage 'best': it gives a count for each row, and "
        "Structured Streaming gives one a key and trigger; run it with --batch"
    )
    require(made.graph, Mode.BATCH, "my.query")


def test_the_error_offers_no_way_out_that_is_none() -> None:
    made, rows = query()
    finished(made, rows.filter(pl.col("t") * 2 > 3).key_by("k").count(emit="each"))
    with pytest.raises(NotOnSparkError, match=r"\(and 1 more: towpath plan my.query --engine spark\)$"):
        require(made.graph, Mode.STREAMING, "my.query")


def test_a_program_in_another_idiom_is_refused() -> None:
    from towpath import faust

    app = faust.App("views", broker="kafka://localhost:9092")

    @app.agent(app.topic("in", value_type=str))
    async def agent(stream):  # type: ignore[no-untyped-def]
        async for _ in stream:
            pass

    with pytest.raises(NotOnSparkError, match=r"written with towpath.Query; this one is a towpath\.faust"):
        graph_of(app)
