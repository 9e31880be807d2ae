"""The jobs in Towpath: ``towpath run bench.peers.towpath.job --set job=q0 …``."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

import polars as pl

from queries.nexmark_schema import EVENT, EVENT_TIME
from towpath.query import Query, Stream, tumbling

EURO_PER_DOLLAR = Decimal("0.908")
PRICE = pl.Decimal(23, 3)
AUCTION_STEP = 123
FIRST_DIRECTORY = 3
WINDOW_MS = 10_000
CATEGORY, STATES = 10, ["OR", "ID", "CA"]


def build(
    app: str,
    source: str,
    sink: str,
    job: str = "count",
    keyed: bool = False,
    emit: Literal["batch", "each"] = "batch",
    partitions: int = 8,
    replicas: int = 1,
) -> Query:
    """A job.

    Args:
        app: name of the application.
        source: topic of the events.
        sink: topic of the outputs.
        job: ``q0``, ``q1``, ``q2``, ``q22``, ``q3``, ``count`` or ``tumbling``.
        keyed: whether the source is partitioned by auction already.
        emit: counts per batch, or one per event.
        partitions: of the edge and the sink.
        replicas: of the stage that reads the source.
    """
    query = Query(app, partitions=partitions)
    keys, event_time = "auction" if keyed else (), EVENT_TIME if job == "tumbling" else None
    events = query.source(source, schema=EVENT, keyed_by=keys, event_time=event_time, parallelism=replicas)
    if job == "q3":
        _suggested(events).sink(sink)
        return query
    bids = events.filter(pl.col("type") == "bid")
    if job == "tumbling":
        counted = bids.key_by("auction").stage("count").window(tumbling(WINDOW_MS), on=EVENT_TIME).count()
        counted.select("auction", "window_start", "count").sink(sink, key="auction")
    elif job == "count":
        by_auction = bids.key_by("auction")
        counts = (by_auction if keyed else by_auction.stage("count")).count(emit=emit)
        counts.sink(sink, key="auction")
    else:
        _stateless(bids, job).sink(sink)
    return query


def _suggested(events: Stream) -> Stream:
    persons = events.filter(pl.col("type") == "person")
    listed = events.filter(pl.col("type") == "auction", pl.col("category") == CATEGORY).select("id", "seller")
    found = listed.key_by("seller").stage("join").enrich(persons.key_by("id"), columns=("name", "city", "state"))
    return found.filter(pl.col("state").is_in(STATES)).select("name", "city", "state", "id")


def _stateless(bids: Stream, job: str) -> Stream:
    if job == "q0":
        return bids.select("auction", "bidder", "price", "date_time", "extra")
    if job == "q1":
        price = (pl.col("price").cast(PRICE) * pl.lit(EURO_PER_DOLLAR, pl.Decimal(4, 3))).cast(PRICE)
        return bids.select("auction", "bidder", price, "date_time", "extra")
    if job == "q2":
        return bids.filter(pl.col("auction") % AUCTION_STEP == 0).select("auction", "price")
    if job == "q22":
        parts = pl.col("url").str.split("/").list
        directories = {f"dir{n}": parts.get(FIRST_DIRECTORY + n - 1, null_on_oob=True) for n in (1, 2, 3)}
        return bids.select("auction", "bidder", "price", "channel", **directories)
    raise ValueError(f"there is no job {job!r}")
