"""Polars types as Spark has them, in the form of its DDL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from towpath.query.check import Schema, visible

_PLAIN: Mapping[Any, str] = {
    pl.Int8: "tinyint",
    pl.Int16: "smallint",
    pl.Int32: "int",
    pl.Int64: "bigint",
    pl.UInt8: "smallint",
    pl.UInt16: "int",
    pl.UInt32: "bigint",
    pl.UInt64: "decimal(20,0)",
    pl.Float32: "float",
    pl.Float64: "double",
    pl.Boolean: "boolean",
    pl.String: "string",
    pl.Binary: "binary",
    pl.Date: "date",
    pl.Null: "void",
}
"""Unsigned integers become the next wider signed one."""

_MOST_DIGITS = 38


def spark_type(dtype: Any) -> str:
    """The type of a column in Spark.

    Raises:
        ValueError: Spark has none.
    """
    match dtype:
        case pl.List():
            return f"array<{spark_type(dtype.inner)}>"
        case pl.Struct():
            return f"struct<{','.join(f'{quoted(each.name)}:{spark_type(each.dtype)}' for each in dtype.fields)}>"
        case pl.Decimal():
            return f"decimal({dtype.precision or _MOST_DIGITS},{dtype.scale})"
        case pl.Datetime():
            return "timestamp_ntz" if dtype.time_zone is None else "timestamp"
    kind = dtype if isinstance(dtype, type) else type(dtype)
    if kind not in _PLAIN:
        raise ValueError(f"{dtype} has no counterpart among Spark's types")
    return _PLAIN[kind]


def ddl(schema: Schema) -> str:
    """The columns that are the user's, as a schema in DDL."""
    return ", ".join(f"{quoted(name)} {spark_type(schema[name])}" for name in visible(schema))


def quoted(name: str) -> str:
    """The name of a column as Spark SQL reads it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"
