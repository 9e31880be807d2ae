"""Q10, log to files: every bid as it is, in Parquet files by day and minute of its event time.

A minute's directory is marked as complete when event time is a minute past its end.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import polars as pl

from queries.nexmark_schema import EVENT_TIME, TOPIC, bids
from towpath.query import Query, tumbling

MINUTE_MS = 60_000

DIRECTORY = str(Path(tempfile.gettempdir()).absolute() / "q10")
"""Where files go when nothing is said: all replicas have to see it."""


def build(
    directory: str = DIRECTORY,
    roll_rows: int = 100_000,
    partitions: int = 8,
    replicas: int = 1,
    topic: str = TOPIC,
) -> Query:
    """Write bids to files.

    Args:
        directory: where they go, an absolute path.
        roll_rows: most rows of a file, but for those of the last batch.
        partitions: of the topics that tell of files.
        replicas: of the stage that writes, at the start.
        topic: where the events are.
    """
    query = Query("q10", partitions=partitions, description="log to files")
    time = pl.col(EVENT_TIME).cast(pl.Datetime("ms"))
    rows = bids(query, topic, replicas).select(
        *("auction", "bidder", "price", "date_time", "extra"),
        dt=time.dt.strftime("%Y-%m-%d"),
        hm=time.dt.strftime("%H:%M"),
    )
    rows.sink_files(
        "q10",
        directory,
        partition_by=("dt", "hm"),
        window=tumbling(MINUTE_MS),
        on=EVENT_TIME,
        complete_after_ms=MINUTE_MS,
        roll_rows=roll_rows,
    )
    return query


query = build()
