"""Which rows are of one session, judged as if they came one by one.

A row joins the sessions of its key that are no further away than the gap and had not ended when it came, by the
watermark that it carries. Where there is none it begins one, or is late if that would have ended already. So what
becomes of a row depends on the order of the input alone, wherever batches end and whenever sessions are put out::

    rows ──▶ stretches without a gap ──▶ was all of a stretch open to each of its rows? ── yes ─▶ one session
                                                  │ no: did each row come to the one session so far? ── yes ─▶ the same
                                                  └ no: row by row

Nearly all stretches are judged in columns; only late rows, and what is left of sessions that have ended, need more.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import polars as pl

from towpath.operators.keyed_rows import GROUP

FIRST, LAST = "first", "last"
"""Event time of the first and of the last row of a session."""

CAME = "__came"
"""Watermark at which a row came (Int64); null: it is a session that was kept."""

AT = "__at"
"""Where a row stands in the order in which they came (UInt32)."""

SESSION = "__session"
"""Number of a row's session among all of the batch (Int64); null: the row is late."""

_SIMPLE = "__simple"


def numbered(rows: pl.DataFrame, gap_ms: int) -> pl.DataFrame:
    """Tell rows apart by session.

    Args:
        rows: kept sessions, and behind them new rows in the order in which they came, each a session of its own;
            columns ``__group``, ``first``, ``last`` and ``__came``.
        gap_ms: longest time between two rows of a session.

    Returns:
        The rows with ``__at`` and ``__session``, by group and time.
    """
    ordered = rows.with_row_index(AT).sort(GROUP, FIRST)
    reached = pl.col(LAST).cum_max().shift(1).over(GROUP)
    begins = (pl.col(FIRST) - reached > gap_ms).fill_null(value=True)
    stretches = ordered.with_columns(begins.cum_sum().cast(pl.Int64).alias(SESSION))
    ended = (pl.col(LAST).min() + gap_ms <= pl.col(CAME).max()).fill_null(value=False)
    doubtful = stretches.filter((ended | (pl.col(CAME).null_count() > 1)).over(SESSION))
    apart = _apart(doubtful, gap_ms) if doubtful.height else doubtful
    if not apart.height:
        return stretches
    found = apart.drop(SESSION).join(_one_by_one(apart, gap_ms, rows.height), on=AT, how="left")
    others = stretches.join(apart, on=AT, how="anti")
    return pl.concat([others, found.select(others.columns)]).sort(GROUP, FIRST)


def _apart(rows: pl.DataFrame, gap_ms: int) -> pl.DataFrame:
    """The rows of those stretches in which some row did not come to the one session that was there so far."""
    first = pl.col(FIRST).cum_min().shift(1).over(SESSION)
    last = pl.col(LAST).cum_max().shift(1).over(SESSION)
    begins = last.is_null() & (pl.col(CAME).is_null() | (pl.col(LAST) + gap_ms > pl.col(CAME)))
    joins = pl.col(FIRST).is_between(first - gap_ms, last + gap_ms) & (last + gap_ms > pl.col(CAME))
    simple = rows.sort(AT).with_columns((begins | joins).fill_null(value=False).alias(_SIMPLE))
    return simple.filter(~pl.col(_SIMPLE).all().over(SESSION)).drop(_SIMPLE)


def _one_by_one(rows: pl.DataFrame, gap_ms: int, taken: int) -> pl.DataFrame:
    """``__at`` and ``__session`` of the rows of stretches; numbers up to ``taken`` are used already."""
    columns = rows.sort(SESSION, AT).select(SESSION, AT, FIRST, LAST, CAME)
    places: list[int] = []
    numbers: list[int | None] = []
    for _, stretch in groupby(columns.iter_rows(), itemgetter(0)):
        items = [Item(*row[1:]) for row in stretch]
        places += [item.at for item in items]
        numbers += [None if at is None else taken + 1 + at for at in judged(items, gap_ms)]
    return pl.DataFrame({AT: places, SESSION: numbers}, schema={AT: pl.UInt32, SESSION: pl.Int64})


class Item(NamedTuple):
    """A kept session, or a row; ``came``: the watermark at which it came, None for a kept session."""

    at: int
    first: int
    last: int
    came: int | None


class _Open(NamedTuple):
    """A session that has not ended; ``at``: where its first item stands."""

    first: int
    last: int
    at: int


def judged(items: Iterable[Item], gap_ms: int) -> list[int | None]:
    """Of each item, in the order in which they came: where its session's first one stands; None: it is late."""
    found: list[int | None] = []
    open_: list[_Open] = []
    for at, first, last, came in items:
        met: list[_Open] = []
        if came is not None:
            open_ = [each for each in open_ if each.last + gap_ms > came]
            met = [each for each in open_ if each.first - gap_ms <= first <= each.last + gap_ms]
            if not met and last + gap_ms <= came:
                found.append(None)
                continue
        parts = [*met, _Open(first, last, at)]
        whole = _Open(min(each.first for each in parts), max(each.last for each in parts), parts[0].at)
        if len(met) > 1:
            joined = {each.at for each in met}
            found = [whole.at if each in joined else each for each in found]
        open_ = [each for each in open_ if each not in met] + [whole]
        found.append(whole.at)
    return found
