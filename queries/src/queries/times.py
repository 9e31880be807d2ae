"""Parts of an event's time in UTC, as text, for Q15, Q16 and Q17."""

from __future__ import annotations

import polars as pl

from towpath.query import Expression, expr

_TIME = pl.col("date_time").cast(pl.Datetime("ms"))


def day() -> Expression:
    """Day of an event, such as ``2015-07-15``."""
    return expr(polars=_TIME.dt.strftime("%Y-%m-%d"), spark="DATE_FORMAT(TIMESTAMP_MILLIS(date_time), 'yyyy-MM-dd')")


def minute() -> Expression:
    """Minute of an event, such as ``17:05``."""
    return expr(polars=_TIME.dt.strftime("%H:%M"), spark="DATE_FORMAT(TIMESTAMP_MILLIS(date_time), 'HH:mm')")
