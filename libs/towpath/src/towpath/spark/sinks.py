"""Rows of a sink → records, in the form in which services write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl
from pyspark.sql import functions as F  # noqa: N812

from towpath.operators.json_encode import PUBLIC_NAMES
from towpath.query.check import visible
from towpath.query.graph import Sink
from towpath.query.plan import SCHED
from towpath.spark.frames import column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_WRAPPED = '{"k":'
"""What stands before a text as JSON in an object of its own; behind it stands a brace."""


def records(rows: DataFrame, sink: Sink) -> DataFrame:
    """Columns ``key`` (Binary, null without a key) and ``value`` (text: a JSON object)."""
    fields = [column(name).alias(name) for name in visible(sink.schema)]
    if SCHED in rows.columns:
        fields.append(column(SCHED).alias(PUBLIC_NAMES[SCHED]))
    value = F.to_json(F.struct(*fields), {"ignoreNullFields": "false"})
    return rows.select(_key(sink.keys, sink.schema).alias("key"), value.alias("value"))


def _key(keys: Sequence[str], schema: Any) -> Column:
    """The key's text; see :mod:`towpath.operators.keys`."""
    match keys:
        case ():
            return F.lit(None).cast("binary")
        case (one,):
            return column(one).cast("string").cast("binary") if schema[one] != pl.Binary else column(one)
        case _:
            parts = [_json(name) if schema[name] == pl.String else column(name).cast("string") for name in keys]
            return F.concat(F.lit("["), F.array_join(F.array(*parts), ","), F.lit("]")).cast("binary")


def _json(name: str) -> Column:
    wrapped = F.to_json(F.struct(column(name).alias("k")))
    return F.substring(wrapped, len(_WRAPPED) + 1, F.length(wrapped) - len(_WRAPPED) - 1)
