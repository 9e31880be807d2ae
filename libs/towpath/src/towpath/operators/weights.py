"""What a row stands for, as expressions over a group of rows: input rows, source events, intended emit times."""

from __future__ import annotations

import polars as pl

from towpath.query.plan import EVENTS, ROWS, SCHED, SCHED_NEWEST


def weight(frame: pl.DataFrame) -> pl.Expr:
    """Number of rows in a group, merged ones counted as what they were (Int64)."""
    # A sum over ones would be taken group by group, in a way that is not vectorised.
    return pl.col(ROWS).fill_null(1).sum() if ROWS in frame.columns else pl.len().cast(pl.Int64)


def events(frame: pl.DataFrame) -> pl.Expr:
    """Number of source events behind a group (Int64); a row that does not say has one for each row merged into it."""
    if EVENTS not in frame.columns:
        return weight(frame)
    rows = pl.col(ROWS) if ROWS in frame.columns else pl.lit(1, pl.Int64)
    return pl.coalesce(EVENTS, rows, pl.lit(1, pl.Int64)).sum()


def emit_times(frame: pl.DataFrame) -> list[pl.Expr]:
    """Oldest and newest intended emit time of a group, under their names; none if the rows have none."""
    return [pl.col(SCHED).min(), newest(frame).max().alias(SCHED_NEWEST)] if SCHED in frame.columns else []


def newest(frame: pl.DataFrame) -> pl.Expr:
    """Newest intended emit time of each row."""
    return pl.coalesce(SCHED_NEWEST, SCHED) if SCHED_NEWEST in frame.columns else pl.col(SCHED)
