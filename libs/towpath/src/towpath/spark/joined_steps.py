"""Joins of two streams by key, on Spark frames: with the row that a table has, and with rows in the same window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from towpath.operators.enriched import Enriched
from towpath.operators.pairs import Pairs, WindowPairs
from towpath.operators.windows import WINDOW_END, WINDOW_START, Window
from towpath.query.windowed_steps import WindowedRowsStep
from towpath.spark.frames import ORDER, TIME, column, columns, order, reserved
from towpath.spark.keyed_steps import ROW
from towpath.spark.windowed_steps import WINDOW, window_bounds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def enriched(rows: DataFrame, table: DataFrame, keys: Sequence[str], reduction: Enriched) -> DataFrame:
    """Rows with the columns of the table's row for their key; rows without one are left out.

    Args:
        rows: the rows' side.
        table: the table's side; over a whole input, which has an order, the newest row of each key counts.
        keys: of both.
        reduction: which columns are taken.
    """
    taken = list(dict.fromkeys(reduction.taken.values()))
    if ORDER in table.columns:
        last = F.max_by(F.struct(*columns(taken)), column(ORDER)).alias(ROW)
        facts = table.groupBy(*columns(keys)).agg(last).select(*columns(keys), f"{ROW}.*")
    else:
        facts = table.select(*columns([*keys, *taken]))
    joined = rows.join(facts, list(keys), "inner")
    found = [column(theirs).alias(name) for name, theirs in reduction.taken.items()]
    return joined.select(*columns([*keys, *reduction.columns]), *found, *reserved(joined, (TIME,)))


def joined(left: DataFrame, right: DataFrame, step: WindowedRowsStep, pairs: Pairs) -> DataFrame:
    """Pairs of rows of a whole input that are in the same window; both sides with ``window_end``."""
    keys = [*step.keys, WINDOW_END]
    found = _paired(left.select(*columns([*keys, *pairs.left])), right, keys, pairs)
    if isinstance(step.window, Window):
        found = found.withColumn(WINDOW_START, column(WINDOW_END) - step.window.size_ms)
    return found.withColumn(ORDER, order(column(WINDOW_END)))


def joined_stream(left: DataFrame, right: DataFrame, step: WindowedRowsStep, pairs: Pairs) -> DataFrame:
    """The same of streams, whose rows have their window as Spark has it.

    A pair comes out as soon as both are there, a row without a partner when its window is over.
    """
    keys = [*step.keys, WINDOW]
    found = _paired(left.select(*columns([*keys, *pairs.left])), right, keys, pairs)
    return found.select("*", *window_bounds()).drop(WINDOW)


def _paired(left: DataFrame, right: DataFrame, keys: Sequence[str], pairs: Pairs) -> DataFrame:
    theirs = [column(taken).alias(name) for name, taken in pairs.right.items()]
    how = pairs.how if isinstance(pairs, WindowPairs) else "inner"
    return left.join(right.select(*columns(keys), *theirs), list(keys), how)
