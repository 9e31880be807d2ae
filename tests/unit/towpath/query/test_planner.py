import polars as pl
import pytest

from towpath.query import GraphError, Query, QueryError
from towpath.query.plan import Edge, Format
from towpath.testing import StageDriver

SCHEMA = {"type": pl.String, "auction": pl.Int64, "price": pl.Int64, "url": pl.String}


@pytest.fixture
def query():
    return Query("app", partitions=6)


@pytest.fixture
def events(query):
    return query.source("events", schema=SCHEMA, emit_time="sched_ms")


def names(stage):
    return [operator.name for operator in stage.operators]


def test_steps_without_an_edge_run_in_one_stage(query, events):
    events.filter(pl.col("price") > 1).select("auction").sink("out")
    (stage,) = query.plan().stages
    assert stage.name == "source"
    assert names(stage) == ["filter", "select"]
    assert not stage.stateful


def test_a_key_and_each_stage_begin_a_stage(query, events):
    events.key_by("auction").stage("count", parallelism=3, backend="memory").count().stage("late").sink("out")
    plan = query.plan()
    assert plan.names == ["source", "count", "late"]
    assert plan.stage("count").parallelism == 3
    assert plan.stage("count").backend == "memory"
    assert plan.stage("count").stateful
    assert [table.name for table in plan.stage("count").tables] == ["count"]


def test_the_stages_of_an_edge_agree_on_topic_format_and_columns(query, events):
    events.key_by("auction").stage("count").count().sink("out", key="auction")
    source, count = query.plan().stages
    (written,), (read,) = source.outputs, count.inputs
    assert written.topic == read.topic == "app.source-count"
    assert written.format == read.format == Format.ARROW
    assert written.partitions == read.partitions == 6
    assert (written.edge, written.key, written.inner) == (Edge.HASH, ("auction",), True)
    assert read.schema == {"auction": pl.Int64}


def test_a_sink_is_json_hashed_by_its_key_or_round_robin(query, events):
    events.sink("keyed", key="auction", partitions=2)
    events.sink("spread")
    keyed, spread = query.plan().stage("source").outputs
    assert (keyed.format, keyed.edge, keyed.key, keyed.partitions, keyed.inner) == (
        Format.JSON,
        Edge.HASH,
        ("auction",),
        2,
        False,
    )
    assert (spread.edge, spread.key, spread.partitions) == (Edge.RANDOM, (), 6)


def test_the_source_is_read_with_only_the_fields_that_the_query_uses(query, events):
    events.filter(pl.col("type") == "bid").key_by("auction").stage("count").count().sink("out")
    (read,) = query.plan().stage("source").inputs
    assert read.schema == {"type": pl.String, "auction": pl.Int64}
    assert (read.emit_time, read.partitions) == ("sched_ms", None)


def test_columns_that_only_the_stage_uses_do_not_cross_the_edge(query, events):
    events.filter(pl.col("type") == "bid").random().stage("next").select("price").sink("out")
    source, following = query.plan().stages
    assert "keep" in names(source)
    assert following.inputs[0].schema == {"price": pl.Int64}


def test_rows_of_a_key_are_merged_before_the_edge_to_a_count(query, events):
    events.key_by("auction").stage("count").count().sink("out")
    source, count = query.plan().stages
    assert names(source)[-1] == "combine"
    assert names(count) == ["count"]


def process(row, state):
    return [], state


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda keyed: keyed.stage("count").count(emit="each"), id="each"),
        pytest.param(lambda keyed: keyed.stage("process").process(process, schema=SCHEMA, state=int), id="process"),
    ],
)
def test_rows_stay_apart_where_each_of_them_matters(query, events, build):
    build(events.key_by("auction")).sink("out")
    assert all("combine" not in names(stage) for stage in query.plan().stages)


def test_rows_stay_apart_where_they_also_go_another_way(query, events):
    keyed = events.key_by("auction")
    keyed.stage("count").count().sink("out")
    keyed.stage("late").count(emit="each").sink("others")
    assert all("combine" not in names(stage) for stage in query.plan().stages)


def test_a_function_on_batches_is_given_every_field(query, events):
    events.map_batches(lambda frame: frame).select("price").sink("out")
    assert query.plan().stage("source").inputs[0].schema == SCHEMA


@pytest.mark.parametrize("wildcard", [pl.all(), pl.struct(pl.all()).alias("s"), pl.col("^pri.*$")])
def test_wildcards_get_the_columns_that_they_mean(query, events, wildcard):
    events.select(wildcard).sink("out")
    stage = query.plan().stage("source")
    assert set(stage.inputs[0].schema) == set(SCHEMA)
    assert [output.topic for output in stage.outputs] == ["out"]


def test_one_column_is_read_even_if_no_column_matters(query, events):
    events.select(one=pl.lit(1)).sink("out")
    assert len(query.plan().stage("source").inputs[0].schema) == 1


def test_the_emit_time_is_no_column(query):
    stream = query.source("events", schema={**SCHEMA, "sched_ms": pl.Int64}, emit_time="sched_ms")
    assert "sched_ms" not in stream.schema


def test_a_topic_that_is_keyed_already_needs_no_shuffle(query):
    events = query.source("events", schema=SCHEMA, keyed_by="auction", stage="count", parallelism=2)
    events.filter(pl.col("type") == "bid").key_by("auction").count().sink("out")
    (stage,) = query.plan().stages
    assert stage.name == "count"
    assert stage.stateful


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.with_columns(auction=pl.col("auction") + 1),
        lambda s: s.select((pl.col("auction") % 7).alias("auction")),
        lambda s: s.map_batches(lambda frame: frame),
        lambda s: s.random().stage("spread"),
    ],
)
def test_rows_are_shuffled_again_once_their_key_may_have_changed(query, change):
    change(query.source("events", schema=SCHEMA, keyed_by="auction")).key_by("auction").count().sink("out")
    assert query.plan().names[-1] == "count"


def test_keyed_steps_on_the_same_key_share_a_stage(query, events):
    first = events.key_by("auction").stage("both").count(into="rows")
    first.key_by("auction").count(into="updates").sink("out")
    stage = query.plan().stage("both")
    assert [(table.name, table.id) for table in stage.tables] == [("rows", 0), ("updates", 1)]


def test_a_forward_edge_has_the_partitions_of_the_input(query, events):
    events.forward().stage("a").random(partitions=5).stage("b").forward().stage("c").sink("out")
    plan = query.plan()
    assert [plan.stage(name).outputs[0].partitions for name in ("source", "a", "b")] == [None, 5, 5]


def test_a_record_key_is_read_only_if_it_is_used(query):
    stream = query.source("events", schema=SCHEMA, key_column="k")
    stream.select("k", "price").sink("with")
    (read,) = query.plan().stage("source").inputs
    assert (read.key_column, read.schema) == ("k", {"price": pl.Int64})


def test_what_is_missing_or_double_is_named():
    with pytest.raises(GraphError, match="reads nothing"):
        Query("app").plan()

    query = Query("app")
    query.source("events", schema=SCHEMA)
    with pytest.raises(GraphError, match="writes nothing"):
        query.plan()

    query = Query("app")
    query.source("events", schema=SCHEMA).sink("out")
    query.source("other", schema=SCHEMA, stage="second")
    with pytest.raises(GraphError, match="rows of stage 'second' go nowhere"):
        query.plan()

    query = Query("app")
    query.source("events", schema=SCHEMA).stage("source").sink("out")
    with pytest.raises(GraphError, match="two stages are named 'source'"):
        query.plan()

    query = Query("app")
    stream = query.source("events", schema=SCHEMA)
    stream.sink("out")
    stream.sink("out")
    with pytest.raises(GraphError, match="two parts of the query write to topic 'out'"):
        query.plan()

    query = Query("app")
    query.source("events", schema=SCHEMA).sink("events")
    with pytest.raises(GraphError, match="reads topic 'events' and writes to it"):
        query.plan()


def test_two_edges_with_one_topic_name_are_refused():
    query = Query("app")
    first = query.source("one", schema=SCHEMA, stage="a-b")
    second = query.source("two", schema=SCHEMA, stage="a")
    first.stage("c").sink("x")
    second.stage("b-c").sink("y")
    with pytest.raises(GraphError, match=r"write to topic 'app\.a-b-c'"):
        query.plan()


def test_a_stage_that_branches_runs_each_branch_for_its_output_alone(query, events):
    cheap = events.with_columns(half=pl.col("price") // 2).filter(pl.col("price") <= 5)
    cheap.select("half").sink("cheap")
    cheap.filter(pl.col("half") == 0).select("url").sink("free")
    events.filter(pl.col("price") > 5).select("price").sink("dear")
    (stage,) = query.plan().stages
    assert stage.operators == ()
    assert {output.topic: [[step.name for step in way] for way in output.ways] for output in stage.outputs} == {
        "cheap": [["with_columns", "filter", "select"]],
        "free": [["with_columns", "filter", "filter", "select"]],
        "dear": [["filter", "select"]],
    }
    driver = StageDriver(query)
    driver.pipe("events", [{"auction": 1, "price": price, "url": f"u{price}"} for price in (1, 5, 6)])
    driver.run_until_idle()
    assert [row["half"] for row in driver.rows("cheap")] == [0, 2]
    assert [row["url"] for row in driver.rows("free")] == ["u1"]
    assert [row["price"] for row in driver.rows("dear")] == [6]
    driver.close()


def test_a_branch_with_state_is_refused_with_the_remedy(query):
    keyed = query.source("keyed", schema=SCHEMA, keyed_by="auction")
    keyed.key_by("auction").count().sink("counts")
    keyed.filter(pl.col("price") <= 5).sink("cheap")
    with pytest.raises(GraphError, match=r"branches before 'count', which keeps state.*\.forward\(\)\.stage"):
        query.plan()


def test_a_branch_that_ends_nowhere_is_refused(query, events):
    events.filter(pl.col("price") > 5).sink("dear")
    events.filter(pl.col("price") <= 5)
    with pytest.raises(GraphError, match="branches, and the rows behind 'filter' go nowhere"):
        query.plan()


def test_branches_of_a_stage_that_come_together_again_share_a_topic(query, events):
    cheap = events.filter(pl.col("price") <= 5).select("auction", "price")
    dear = events.filter(pl.col("price") > 100).select("auction", price=pl.col("price") // 100)
    cheap.union(dear).key_by("auction").stage("both").count().sink("out")
    plan = query.plan()
    assert [item.topic for item in plan.stage("both").inputs] == ["app.source-both"]
    (output,) = plan.stage("source").outputs
    assert [[step.name for step in way] for way in output.ways] == [
        ["filter", "select", "require_key", "keep"],
        ["filter", "select", "require_key", "keep"],
    ]


def test_streams_of_several_sources_come_together_in_a_stage():
    query = Query("app", partitions=2)
    one = query.source("one", schema=SCHEMA, stage="first")
    two = query.source("two", schema=SCHEMA, stage="second")
    one.union(two).key_by("auction").stage("both").count().sink("out")
    assert [item.topic for item in query.plan().stage("both").inputs] == ["app.first-both", "app.second-both"]
    driver = StageDriver(query)
    driver.pipe("one", [{"auction": 1}, {"auction": 2}])
    driver.pipe("two", [{"auction": 1}])
    driver.run_until_idle()
    assert {row["auction"]: row["count"] for row in driver.rows("out")} == {1: 2, 2: 1}
    driver.close()


def test_streams_that_come_together_must_have_the_same_columns(query, events):
    other = events.select("auction")
    with pytest.raises(QueryError, match=r"stage 'both' would read rows with different columns.*select the same"):
        events.union(other).random().stage("both")
    with pytest.raises(GraphError, match="streams of two queries"):
        events.union(Query("other").source("events", schema=SCHEMA)).stage("both")


def test_a_branch_by_edges_writes_every_edge(query, events):
    events.stage("dear").filter(pl.col("price") > 5).select("price").sink("dear")
    events.stage("cheap").filter(pl.col("price") <= 5).select("url").sink("cheap")
    outputs = query.plan().stage("source").outputs
    assert [output.topic for output in outputs] == ["app.source-dear", "app.source-cheap"]


def test_two_tables_of_one_name_in_a_stage_are_refused(query, events):
    events.key_by("auction").count().key_by("auction").count().sink("out")
    with pytest.raises(GraphError, match="two tables named 'count'"):
        query.plan()


def test_operators_are_made_anew_for_every_replica(query, events):
    events.filter(pl.col("price") > 1).sink("out")
    (operator, *_) = query.plan().stage("source").operators
    assert operator.make() is not operator.make()


def add_one(row, state):
    state.set(state.get(0) + 1)
    yield {"auction": row["auction"], "n": state.get()}


def test_process_names_its_stage_and_table_after_the_function(query, events):
    counted = events.key_by("auction").process(add_one, schema={"auction": pl.Int64, "n": pl.Int64})
    counted.sink("out")
    stage = query.plan().stage("add_one")
    assert [table.name for table in stage.tables] == ["add_one"]
    assert stage.inputs[0].schema == SCHEMA
