"""Compares what a query put out, and the state it left, with the oracle's expectation.

What "the same" means: append outputs are equal as multisets; of an update stream the last value per key is equal
and each key's outputs are a strictly advancing part of the serial run's, where they are counts; the state has each key
once, with the expected value. With at-least-once, outputs may repeat, but none may be missing or wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from loadgen.errors import OptionError
from loadgen.oracle.expectations import QUERIES, VIEWS, Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Emit", "Guarantee", "VerifyResult", "query_named", "verify_outputs", "verify_rows", "verify_state"]

Emit = Literal["batch", "each"]
"""batch: one output per key and batch of any size. each: one output per input."""

Guarantee = Literal["exactly_once", "at_least_once"]

MAX_SAMPLES = 20
"""Mismatches shown in full: enough to see a pattern, few enough to read."""


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """What a comparison found.

    Attributes:
        query: Name of the query.
        what: `outputs` or `state`.
        input_events: Records in the input.
        unreadable_events: Those among them that are no events; a service drops or diverts them.
        expected: Rows expected (for counts and upserts: keys).
        actual: Rows found (for counts: outputs; for upserts: keys).
        faults: Kind of mismatch → number.
        samples: Up to `MAX_SAMPLES` mismatches in full.
    """

    query: str
    what: str
    input_events: int
    unreadable_events: int
    expected: int
    actual: int
    faults: Mapping[str, int] = field(default_factory=dict)
    samples: tuple[dict[str, Any], ...] = ()

    @property
    def mismatches(self) -> int:
        """All faults together."""
        return sum(self.faults.values())

    @property
    def ok(self) -> bool:
        """Whether there was something to compare, and all of it agreed."""
        return self.mismatches == 0 and self.input_events > 0

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = ("query", "what", "input_events", "unreadable_events", "expected", "actual")
        plain = {name: getattr(self, name) for name in names}
        more = {"mismatches": self.mismatches, "ok": self.ok, "faults": dict(self.faults), "samples": self.samples}
        return plain | more


def query_named(name: str) -> Query:
    """The query of a name.

    Raises:
        OptionError: The oracle does not know it.
    """
    if name not in QUERIES:
        raise OptionError(f"the oracle does not know the query {name!r}; it knows {', '.join(QUERIES)}")
    return QUERIES[name]


def verify_outputs(
    spark: SparkSession,
    query_name: str,
    input_records: DataFrame,
    sink_records: DataFrame,
    *,
    emit: Emit = "batch",
    guarantee: Guarantee = "exactly_once",
) -> VerifyResult:
    """Compares a sink with the expectation.

    Args:
        spark: Session.
        query_name: One of `QUERIES`.
        input_records: Column `value` (JSON): the query's whole input.
        sink_records: Columns `key`, `value` (JSON), `partition`, `offset`: the query's whole output.
        emit: Counts only: whether each input must have its own output.
        guarantee: Whether outputs may repeat.

    Returns:
        What was found.

    Raises:
        OptionError: The query is unknown.
    """
    query = query_named(query_name)
    wanted = _expect(spark, query, input_records)
    parsed = sink_records.selectExpr(
        "CAST(key AS STRING) AS record_key",
        "partition",
        "offset",
        f"from_json(CAST(value AS STRING), '{query.output_schema}') AS row",
    )
    actual = parsed.select("record_key", "partition", "offset", "row.*")
    match query.kind:
        case "counts":
            compared = _compare_counts(spark, wanted.rows, actual, emit, guarantee)
        case "upserts":
            compared = _compare_rows(spark, wanted.rows, _last_of_each(spark, query, actual), "exactly_once")
        case "rows":
            compared = _compare_rows(spark, wanted.rows, actual.drop(*_POSITION), guarantee)
    return _result(query.name, "outputs", wanted, compared)


def verify_rows(spark: SparkSession, query_name: str, input_records: DataFrame, rows: DataFrame) -> VerifyResult:
    """Compares rows that are no records of a topic with the expectation.

    Args:
        spark: Session.
        query_name: One of `QUERIES` whose outputs never change.
        input_records: Column `value` (JSON): the query's whole input.
        rows: The query's whole output, with its columns in any order.

    Returns:
        What was found.

    Raises:
        OptionError: The query is unknown, or its outputs are updates.
    """
    query = query_named(query_name)
    if query.kind != "rows":
        raise OptionError(f"{query.name} puts out updates, whose order only a topic tells")
    wanted = _expect(spark, query, input_records)
    compared = _compare_rows(spark, wanted.rows, rows.select(*wanted.rows.columns), "exactly_once")
    return _result(query.name, "outputs", wanted, compared)


def verify_state(
    spark: SparkSession, query_name: str, input_records: DataFrame, state: DataFrame, *, table: str | None = None
) -> VerifyResult:
    """Compares the state that a query left with the expectation.

    Args:
        spark: Session.
        query_name: One of `QUERIES` that keeps counts.
        input_records: Column `value` (JSON): the query's whole input.
        state: Columns `table`, `partition`, `key` (text or bytes) and `value`: JSON, either the count or an
            object with a field `count`.
        table: Look at this table's rows only; None: at all.

    Returns:
        What was found.

    Raises:
        OptionError: The query is unknown or keeps no state.
    """
    query = query_named(query_name)
    if query.kind != "counts":
        raise OptionError(f"{query.name} keeps no state to verify")
    wanted = _expect(spark, query, input_records)
    rows = state if table is None else state.where(state["table"] == table)
    rows = rows.selectExpr(
        "TRY_CAST(CAST(key AS STRING) AS BIGINT) AS auction",
        "COALESCE(TRY_CAST(GET_JSON_OBJECT(value, '$.count') AS BIGINT), TRY_CAST(value AS BIGINT)) AS n",
    )
    compared = _compare_rows(spark, wanted.rows, rows, "exactly_once")
    return _result(query.name, "state", wanted, compared)


@dataclass(frozen=True, slots=True)
class _Expectation:
    """The parsed input, kept until the comparison is done, and the rows that a query makes of it."""

    events: DataFrame
    total: int
    unreadable: int
    rows: DataFrame


def _expect(spark: SparkSession, query: Query, input_records: DataFrame) -> _Expectation:
    arrived = ["UNIX_MILLIS(timestamp) AS arrived"] if "timestamp" in input_records.columns else []
    event = f"from_json(CAST(value AS STRING), '{query.input_schema}') AS e"
    parsed = input_records.selectExpr(event, *arrived)
    events = parsed.select("e.*", *parsed.columns[1:]).persist()
    total, unreadable = events.selectExpr("COUNT(*)", "COUNT_IF(type IS NULL)").collect()[0]
    events.createOrReplaceTempView("events")
    for view, kind in VIEWS.items():
        events.where(events["type"] == kind).createOrReplaceTempView(view)
    return _Expectation(events, int(total), int(unreadable), spark.sql(query.sql))


_POSITION = ("record_key", "partition", "offset")


def _last_of_each(spark: SparkSession, query: Query, actual: DataFrame) -> DataFrame:
    """The last row of each key; one of each partition, so that a key in several of them is found out."""
    actual.createOrReplaceTempView("actual_upserts")
    keys = ", ".join(query.keys)
    return spark.sql(f"""
        SELECT * FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY {keys}, partition ORDER BY offset DESC) AS newest
            FROM actual_upserts)
        WHERE newest = 1
    """).drop(*_POSITION, "newest")  # noqa: S608 - column names of our own


def _compare_rows(spark: SparkSession, expected: DataFrame, actual: DataFrame, guarantee: Guarantee) -> DataFrame:
    """Multiset difference by one grouping: columns fault (null: none), n, row (JSON), wanted and found."""
    columns = ", ".join(f"`{name}`" for name in expected.columns)
    expected.createOrReplaceTempView("expected_rows")
    actual.toDF(*expected.columns).createOrReplaceTempView("actual_rows")
    # A row that is expected and comes too often is told apart from one that should not be there at all.
    repeated = "NULL" if guarantee == "at_least_once" else "'duplicated'"
    return spark.sql(f"""
        SELECT CASE WHEN found = wanted THEN NULL WHEN found < wanted THEN 'missing'
                    WHEN wanted = 0 THEN 'unexpected' ELSE {repeated} END AS fault,
               ABS(wanted - found) AS n, to_json(struct({columns})) AS row, wanted, found
        FROM (SELECT {columns}, SUM(w) AS wanted, SUM(f) AS found FROM (
                SELECT {columns}, 1 AS w, 0 AS f FROM expected_rows
                UNION ALL SELECT {columns}, 0, 1 FROM actual_rows)
              GROUP BY {columns})
    """)  # noqa: S608 - column names of our own


def _compare_counts(
    spark: SparkSession, expected: DataFrame, actual: DataFrame, emit: Emit, guarantee: Guarantee
) -> DataFrame:
    """Checks a stream of running counts key by key: columns as of `_compare_rows`, several rows per key."""
    expected.createOrReplaceTempView("expected_counts")
    actual.createOrReplaceTempView("actual_counts")
    per_key = spark.sql("""
        SELECT auction, MAX_BY(count, position) AS last, MIN(count) AS least, MAX(count) AS most, COUNT(*) AS outputs,
               COUNT(DISTINCT count) AS distinct_counts, COUNT(DISTINCT partition) AS partitions,
               COUNT_IF(count <= COALESCE(previous, 0) OR count IS NULL) AS not_advancing,
               COUNT_IF(events IS NOT NULL AND events <> count - COALESCE(previous, 0)) AS events_differ,
               COUNT_IF(record_key IS NULL OR record_key <> CAST(auction AS STRING)) AS wrong_key
        FROM (SELECT *, struct(partition, offset) AS position,
                     LAG(count) OVER (PARTITION BY auction ORDER BY partition, offset) AS previous
              FROM actual_counts)
        GROUP BY auction
    """)
    per_key.createOrReplaceTempView("actual_keys")
    strict = "TRUE" if guarantee == "exactly_once" else "FALSE"
    each = "TRUE" if emit == "each" else "FALSE"
    return spark.sql(f"""
        SELECT STACK(10,
                   CAST(NULL AS STRING), 0L, wanted, found,
                   'missing', BIGINT(found = 0), 0, 0,
                   'unexpected', BIGINT(wanted = 0), 0, 0,
                   'wrong_last', BIGINT(wanted > 0 AND found > 0 AND NOT last <=> n), 0, 0,
                   'out_of_range', BIGINT(least < 1 OR most > n), 0, 0,
                   'several_partitions', BIGINT(partitions > 1), 0, 0,
                   'wrong_key', wrong_key, 0, 0,
                   'not_advancing', IF({strict}, not_advancing, 0), 0, 0,
                   'events_differ', IF({strict}, events_differ, 0), 0, 0,
                   'not_each', BIGINT({each} AND found > 0 AND distinct_counts <> n), 0, 0
               ) AS (fault, n, wanted, found), row
        FROM (SELECT e.n, INT(e.n IS NOT NULL) AS wanted, INT(COALESCE(a.outputs, 0)) AS found, a.last, a.least, a.most,
                     a.partitions, a.wrong_key, a.not_advancing, a.events_differ, a.distinct_counts,
                     to_json(struct(COALESCE(e.auction, a.auction) AS auction, e.n AS expected, a.last, a.least, a.most,
                                    a.outputs, a.partitions, a.not_advancing, a.events_differ, a.wrong_key)) AS row
              FROM expected_counts e FULL OUTER JOIN actual_keys a ON e.auction <=> a.auction)
    """)  # noqa: S608 - literals of our own


def _result(name: str, what: str, wanted: _Expectation, compared: DataFrame) -> VerifyResult:
    from pyspark.sql import functions as f

    compared = compared.where("fault IS NULL OR n > 0").cache()
    try:
        sums = compared.groupBy("fault").agg(f.sum("n"), f.sum("wanted"), f.sum("found")).collect()
        faults = {row[0]: int(row[1]) for row in sums if row[0] is not None}
        wrong = compared.where("fault IS NOT NULL").orderBy("fault", "row").limit(MAX_SAMPLES)
        shown = wrong.collect() if faults else []
    finally:
        compared.unpersist()
        wanted.events.unpersist()
    samples = tuple({"fault": row["fault"], "n": int(row["n"])} | json.loads(row["row"]) for row in shown)
    expected, actual = (sum(int(row[i]) for row in sums) for i in (2, 3))
    counted = (wanted.total, wanted.unreadable, expected, actual)
    return VerifyResult(name, what, *counted, dict(sorted(faults.items())), samples)
