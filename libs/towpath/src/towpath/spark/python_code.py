"""Python code of a query in Spark's workers: rows come and go as Arrow data. Needs no PySpark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa

from towpath.operators.process import KeyState, RowFunction
from towpath.operators.rows import BatchFunction
from towpath.query.plan import PARTITION

_ORDER = ("ms", "a", "b")


@dataclass(frozen=True)
class BatchesFunction:
    """Runs a user's function on batches, as ``mapInArrow`` calls it.

    The function finds the reserved columns that services have, among them ``__partition``, here always 0.

    Attributes:
        function: ``frame → frame``.
        columns: that come out, in this order.
    """

    function: BatchFunction
    columns: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches in, batches out."""
        for batch in batches:
            frame = pl.from_arrow(batch)
            assert isinstance(frame, pl.DataFrame)  # noqa: S101 - of a record batch
            result = self.function(frame.with_columns(pl.lit(0, pl.Int32).alias(PARTITION)))
            yield from plain(result.select(self.columns)).to_batches()


@dataclass(frozen=True)
class GroupFunction:
    """Runs a user's function on the rows of one key in their order, as ``applyInArrow`` calls it.

    What the function raises ends the Spark job: there is no dead-letter topic here.

    Attributes:
        function: ``(row, state) → rows``.
        schema: columns that come out → Polars type.
        order: column with the rows' order; it also goes out.
    """

    function: RowFunction
    schema: Mapping[str, Any]
    order: str

    def __call__(self, table: pa.Table) -> pa.Table:
        """The rows of a key → what the function gives for them."""
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)  # noqa: S101 - of a table
        frame = frame.sort([pl.col(self.order).struct.field(part) for part in _ORDER], maintain_order=True)
        state = KeyState(None)
        rows: list[dict[str, Any]] = []
        for row in frame.iter_rows(named=True):
            place = row.pop(self.order)
            rows += [{**out, self.order: place} for out in self.function(row, state)]
        return plain(pl.DataFrame(rows, schema={**self.schema, self.order: frame.schema[self.order]}, orient="row"))


def plain(frame: pl.DataFrame) -> pa.Table:
    """A frame as the Arrow data that Spark takes: 32-bit offsets, signed integers, microseconds."""
    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    return table.cast(pa.schema([field.with_type(_plain(field.type)) for field in table.schema]))


def _plain(dtype: pa.DataType) -> pa.DataType:
    plainer: Mapping[Callable[[pa.DataType], bool], pa.DataType] = {
        pa.types.is_large_string: pa.string(),
        pa.types.is_large_binary: pa.binary(),
        pa.types.is_uint8: pa.int16(),
        pa.types.is_uint16: pa.int32(),
        pa.types.is_uint32: pa.int64(),
        pa.types.is_uint64: pa.decimal128(20, 0),
    }
    for is_of, instead in plainer.items():
        if is_of(dtype):
            return instead
    if pa.types.is_timestamp(dtype):
        return pa.timestamp("us", dtype.tz)
    if pa.types.is_large_list(dtype):
        return pa.list_(_plain(dtype.value_type))
    if pa.types.is_struct(dtype):
        return pa.struct([field.with_type(_plain(field.type)) for field in dtype])
    return dtype
