"""Counts per key with a state of 100 bytes each: what the hand-over benchmark moves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from towpath.operators.process import KeyState
from towpath.query import Query

VALUE_BYTES = 100
"""Of a state value as it is stored: a JSON text."""

_DIGITS = 12
_PADDING = "x" * (VALUE_BYTES - _DIGITS - len('""'))


def count_padded(row: dict[str, Any], state: KeyState) -> Iterator[dict[str, Any]]:
    """One more; the count stands at the beginning of a text of fixed length."""
    count = int(state.get("0" * _DIGITS)[:_DIGITS]) + 1
    state.set(f"{count:0{_DIGITS}d}{_PADDING}")
    yield {"auction": row["auction"], "count": count}


def build(app: str, partitions: int = 8) -> Query:
    """Reads ``<app>-events``, writes ``<app>-counts``."""
    query = Query(app, partitions=partitions)
    events = query.source(f"{app}-events", schema={"auction": pl.Int64}, emit_time="sched_ms")
    counts = events.key_by("auction").stage("count")
    counts.process(count_padded, schema={"auction": pl.Int64, "count": pl.Int64}, state=str, name="padded").sink(
        f"{app}-counts", key="auction"
    )
    return query
