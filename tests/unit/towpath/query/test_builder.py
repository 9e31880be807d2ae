import polars as pl
import pytest

from towpath.query import (
    BatchDependentError,
    ColumnTypeError,
    GraphError,
    Query,
    QueryError,
    UnknownColumnError,
)

SCHEMA = {"auction": pl.Int64, "price": pl.Int64, "channel": pl.String, "rate": pl.Float64}


def source(**options):
    return Query("app").source("events", schema=SCHEMA, **options)


def test_an_unknown_column_is_named_with_its_place_and_the_nearest_right_one():
    with pytest.raises(
        UnknownColumnError, match=r"filter in stage 'source': unknown column 'acution'; did you mean 'auction'\?"
    ):
        source().filter(pl.col("acution") > 5)


@pytest.mark.parametrize(
    "write",
    [
        lambda s: s.select("prise"),
        lambda s: s.with_columns(x=pl.col("prise") * 2),
        lambda s: s.key_by("prise"),
        lambda s: s.sink("out", key="prise"),
        lambda s: s.map_batches(lambda frame: frame.filter(pl.col("prise") > 1)),
        lambda s: s.map_batches(lambda frame: frame.with_columns(frame["prise"])),
    ],
)
def test_every_step_names_an_unknown_column(write):
    with pytest.raises(UnknownColumnError, match=r"unknown column 'prise'; did you mean 'price'\?"):
        write(source())


def test_an_expression_that_does_not_fit_the_types_is_refused_with_the_columns():
    with pytest.raises(ColumnTypeError, match=r"filter in stage 'source' does not fit the columns auction Int64"):
        source().filter(pl.col("channel") + 1 > 5)
    with pytest.raises(ColumnTypeError):
        source().filter(pl.col("price"))


@pytest.mark.parametrize(
    "expression",
    [
        pl.col("price").is_in([1, 2]),
        pl.when(pl.col("price") > 1).then(pl.lit(2)).otherwise(None),
        pl.lit(5) + pl.col("price") * pl.lit(2),
        pl.col("channel").str.split("/").list.get(3, null_on_oob=True),
        pl.concat_list("price", "auction").list.sum(),
    ],
)
def test_an_expression_over_one_row_is_taken(expression):
    assert "x" in source().with_columns(x=expression).schema


@pytest.mark.parametrize(
    "expression",
    [
        pl.col("price").sum(),
        pl.col("price").cum_sum(),
        pl.col("price").shift(),
        pl.len(),
        pl.col("price").rank(),
        pl.col("price") > pl.col("price").mean(),
        pl.col("price").cum_sum() > 3,
        pl.len() > 3,
        pl.when(pl.col("price").shift() == 1).then(1).otherwise(2),
    ],
)
def test_an_expression_over_several_rows_is_refused_since_batches_are_chance(expression):
    with pytest.raises(BatchDependentError, match=r"looks at other rows of the batch.*use key_by"):
        source().with_columns(x=expression)


def test_columns_with_reserved_names_are_refused_wherever_they_come_up():
    with pytest.raises(QueryError, match=r"begin with '__' are reserved; rename '__x'"):
        source().with_columns(__x=pl.lit(1))
    with pytest.raises(QueryError, match="reserved"):
        source().select(pl.col("price").alias("__events"))
    with pytest.raises(QueryError, match="reserved"):
        source().map_batches(lambda frame: frame.with_columns(__x=1))
    with pytest.raises(QueryError, match="reserved"):
        Query("app").source("events", schema={"__x": pl.Int64})
    with pytest.raises(QueryError, match="reserved"):
        source().key_by("auction").count(into="__n")


def test_a_batch_function_must_keep_the_reserved_columns_and_return_a_frame():
    with pytest.raises(QueryError, match=r"map_batches\(<lambda>\) in stage 'source' dropped __partition"):
        source().map_batches(lambda frame: frame.select("price"))
    with pytest.raises(QueryError, match="returned NoneType; it must return a polars"):
        source().map_batches(lambda frame: None)


def test_a_key_must_have_one_text_per_value():
    with pytest.raises(ColumnTypeError, match=r"column 'rate' is Float64, which has no one text per value"):
        source().key_by("rate")
    with pytest.raises(QueryError, match="name at least one key column"):
        source().key_by()


def test_a_field_type_that_json_lacks_is_refused():
    with pytest.raises(ColumnTypeError, match=r"source 'events', field 'at': a JSON field can't be read as Time"):
        Query("app").source("events", schema={"at": pl.Time})


def test_a_schema_of_nothing_but_the_emit_time_is_refused():
    with pytest.raises(QueryError, match="no field besides the emit time"):
        Query("app").source("events", schema={"sched_ms": pl.Int64}, emit_time="sched_ms")


def test_a_sink_refuses_columns_named_like_its_own_fields():
    with pytest.raises(QueryError, match=r"sink 'out': the sink writes its own field 'sched_ms'"):
        source(emit_time="emitted").with_columns(sched_ms=pl.lit(1)).sink("out")


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda: Query("my app"), "is no application name"),
        (lambda: Query("app", partitions=0), "a topic has at least one"),
        (lambda: source(stage="a b"), "is no stage name"),
        (lambda: source(parallelism=0), "at least one replica"),
        (lambda: source(backend="rocks"), r"unknown backend 'rocks'; did you mean 'rocksdb'\?"),
        (lambda: source().sink("a/b"), "is no topic name"),
    ],
)
def test_names_and_options_are_checked(write, message):
    with pytest.raises(GraphError, match=message):
        write()


def test_count_checks_its_options():
    keyed = source().key_by("auction")
    with pytest.raises(QueryError, match="emit is 'batch' or 'each'"):
        keyed.count(emit="all")
    with pytest.raises(QueryError, match="the key has that name"):
        keyed.count(into="auction")


def test_a_stream_knows_its_columns():
    stream = source().select("price", twice=pl.col("price") * 2).key_by("price").count(into="n")
    assert stream.schema == {"price": pl.Int64, "n": pl.Int64}
