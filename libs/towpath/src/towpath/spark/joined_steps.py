"""Joins of rows with the rows that a table has for their key, on Spark frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from towpath.operators.enriched import Enriched
from towpath.spark.frames import ORDER, TIME, column, columns, reserved
from towpath.spark.keyed_steps import ROW

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
