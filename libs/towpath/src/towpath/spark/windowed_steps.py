"""Windows of event time on Spark frames: over a whole input, and on streams by Spark's watermark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import Window as Over
from pyspark.sql import functions as F  # noqa: N812

from towpath.operators.aggregates import Aggregates
from towpath.operators.highest import Highest
from towpath.operators.ranked import Ranked
from towpath.operators.windows import WINDOW_END, WINDOW_START, Until, Window
from towpath.query.check import Schema
from towpath.query.plan import SCHED
from towpath.query.windowed_steps import AssignWindowsStep, SessionsStep, WindowedRowsStep
from towpath.spark.frames import ORDER, TIME, column, columns, order
from towpath.spark.keyed_steps import ROWS, aggregates, first_rows, placed, reduced

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WINDOW = "__window"
"""A window of a stream, as Spark has it."""

_MOST = "__most"
_SESSION = "__session"


def assigned(frame: DataFrame, step: AssignWindowsStep) -> DataFrame:
    """A row for each of its windows, with ``window_end``."""
    match step.window:
        case Until(column=moment):
            return frame.withColumn(WINDOW_END, column(moment))
        case Window(size_ms=size, slide_ms=slide) as window:
            last = _floor(column(step.on), slide) + size
            ends = F.array(*(last - number * slide for number in range(window.overlapping)))
            return frame.withColumn(WINDOW_END, F.explode(ends))


def windowed(frame: DataFrame, step: WindowedRowsStep, schema: Schema) -> DataFrame:
    """Results of windows over a whole input, at whose end all are closed."""
    found = reduced(frame, [*step.keys, WINDOW_END], step.reduction, schema)
    if isinstance(step.window, Window):
        found = found.withColumn(WINDOW_START, column(WINDOW_END) - step.window.size_ms)
    place = step.reduction.rank if isinstance(step.reduction, Ranked) and step.reduction.rank else None
    placed = order(column(WINDOW_END), None if place is None else column(place))
    return found.drop(SCHED).withColumn(ORDER, placed)


def windowed_stream(frame: DataFrame, step: WindowedRowsStep, on: str, schema: Schema) -> DataFrame:
    """Results of windows of a stream, when the watermark has come to their ends.

    Args:
        frame: rows with an event time that Spark knows.
        step: the windows.
        on: the column that they go by.
        schema: of the rows.
    """
    size = _sized(step.window)
    window = _window(size)
    keys = columns(step.keys)
    bounds = [*window_bounds(), F.window_time(F.col(WINDOW)).alias(TIME)]
    rows = _on_time(frame, on, size.slide_ms)
    match step.reduction:
        case Aggregates(columns=asked):
            wide, values = aggregates(rows, asked)
            return wide.groupBy(*keys, window).agg(*values).select(*keys, *bounds, *columns(asked))
        case Ranked() as ranked:
            found = rows.groupBy(*keys, window).agg(first_rows(ranked, schema))
            return placed(found.select(*keys, *bounds, ROWS), ranked.rank)
        case Highest() as highest:
            return placed(_highest(rows, keys, window, highest).select(*keys, *bounds, ROWS), None)
        case _:
            raise TypeError(f"{type(step.reduction).__name__} has no form on streams")


def in_windows(frame: DataFrame, step: AssignWindowsStep) -> DataFrame:
    """Rows of a stream with an event time that Spark knows, each with its window, or once for each of them."""
    size = _sized(step.window)
    return _on_time(frame, step.on, size.slide_ms).withColumn(WINDOW, _window(size))


def window_bounds() -> list[Column]:
    """Bounds of such a window."""
    bounds = {WINDOW_START: "start", WINDOW_END: "end"}
    return [F.unix_millis(F.col(f"{WINDOW}.{bound}")).alias(name) for name, bound in bounds.items()]


def sessions(frame: DataFrame, step: SessionsStep) -> DataFrame:
    """Sessions over a whole input."""
    keys, on = list(step.keys), column(step.sessions.on)
    before = Over.partitionBy(*columns(keys)).orderBy(on)
    reached = F.max(on).over(before.rowsBetween(Over.unboundedPreceding, -1))
    begins = F.when(on - reached > step.sessions.gap_ms, 1).otherwise(0)
    number = F.sum(_SESSION).over(before.rowsBetween(Over.unboundedPreceding, Over.currentRow))
    numbered = frame.withColumn(_SESSION, begins).withColumn(_SESSION, number)
    wide, values = aggregates(numbered, step.sessions.aggregates.columns)
    bounds = [F.min(on).alias(WINDOW_START), (F.max(on) + step.sessions.gap_ms).alias(WINDOW_END)]
    found = wide.groupBy(*columns(keys), _SESSION).agg(*bounds, *values)
    return found.withColumn(ORDER, order(column(WINDOW_END)))


def session_stream(frame: DataFrame, step: SessionsStep) -> DataFrame:
    """Sessions of a stream, when the watermark has come to their ends."""
    wide, values = aggregates(frame, step.sessions.aggregates.columns)
    window = F.session_window(column(TIME), _ms(step.sessions.gap_ms)).alias(WINDOW)
    keys = columns(step.keys)
    found = wide.groupBy(*keys, window).agg(*values)
    return found.select(*keys, *window_bounds(), *columns(step.sessions.aggregates.columns))


def _highest(rows: DataFrame, keys: Sequence[Column], window: Column, highest: Highest) -> DataFrame:
    """All rows with the greatest value: an aggregate that collects rows, since streams have no window functions."""
    row = F.struct(*columns(highest.columns))
    collected = rows.groupBy(*keys, window).agg(F.max(column(highest.by)).alias(_MOST), F.collect_list(row).alias(ROWS))
    best = F.filter(ROWS, lambda each: each.getField(highest.by) == F.col(_MOST))
    return collected.select(*keys, WINDOW, best.alias(ROWS))


def _sized(window: Window | Until) -> Window:
    if not isinstance(window, Window):
        raise TypeError(f"{window} has no form on streams")
    return window


def _window(size: Window) -> Column:
    return F.window(column(TIME), _ms(size.size_ms), _ms(size.slide_ms)).alias(WINDOW)


def _on_time(frame: DataFrame, on: str, slide_ms: int) -> DataFrame:
    """Refuses, as it runs, rows whose own event time is in another window than the one that Spark knows of them."""
    known = _floor(F.unix_millis(column(TIME)), slide_ms)
    text = f"a row's {on} is in another window than the event time that Structured Streaming knows of it"
    same = F.when(_floor(column(on), slide_ms) == known, F.lit(1)).otherwise(F.raise_error(text).cast("int"))
    return frame.where(same == 1)


def _floor(ms: Column, slide_ms: int) -> Column:
    return ms - F.pmod(ms, F.lit(slide_ms))


def _ms(ms: int) -> str:
    return f"{ms} milliseconds"
