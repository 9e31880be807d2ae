"""The jobs in Pathway: ``program.py RUN.json`` runs one of them until SIGTERM."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pathway as pw

AUCTION_STEP = 123
FIRST_DIRECTORY = 3


class Event(pw.Schema):
    """Fields of all kinds of events that a job needs."""

    type: str
    auction: int | None = pw.column_definition(default_value=None)
    bidder: int | None = pw.column_definition(default_value=None)
    price: int | None = pw.column_definition(default_value=None)
    date_time: int | None = pw.column_definition(default_value=None)
    channel: str | None = pw.column_definition(default_value=None)
    url: str | None = pw.column_definition(default_value=None)
    extra: str | None = pw.column_definition(default_value=None)


class Keyed(pw.Schema):
    """What the count needs."""

    type: str
    auction: int | None = pw.column_definition(default_value=None)


def main() -> None:
    """Build the job and run it."""
    run = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    settings = run["settings"]
    kafka = {"bootstrap.servers": run["bootstrap"], "group.id": run["app"], "auto.offset.reset": "earliest"}
    events = pw.io.kafka.read(
        kafka,
        topic=run["source"],
        schema=Keyed if run["job"] == "count" else Event,
        format="json",
        autocommit_duration_ms=int(settings["autocommit_duration_ms"]),
        name="source",
    )
    bids = events.filter(events.type == "bid")
    pw.io.kafka.write(outputs(bids, run["job"]), kafka, run["sink"], format="json")
    pw.run(
        monitoring_level=pw.MonitoringLevel.NONE,
        persistence_config=pw.persistence.Config(
            pw.persistence.Backend.filesystem(f"{run['state_dir']}/persistence"),
            snapshot_interval_ms=int(settings["snapshot_interval_ms"]),
        ),
    )


def outputs(bids: Any, job: str) -> Any:
    """The job's table."""
    if job == "count":
        return bids.groupby(bids.auction).reduce(bids.auction, count=pw.reducers.count())
    if job == "q0":
        return bids.select(bids.auction, bids.bidder, bids.price, bids.date_time, bids.extra)
    if job == "q1":
        price = pw.unwrap(bids.price) * 0.908
        return bids.select(bids.auction, bids.bidder, bids.date_time, bids.extra, price=price)
    if job == "q2":
        chosen = bids.filter(pw.unwrap(bids.auction) % AUCTION_STEP == 0)
        return chosen.select(chosen.auction, chosen.price)
    split = bids.select(
        bids.auction, bids.bidder, bids.price, bids.channel, parts=pw.apply(directories, pw.unwrap(bids.url))
    )
    parts = {f"dir{n}": split.parts[n - 1] for n in (1, 2, 3)}
    return split.select(split.auction, split.bidder, split.price, split.channel, **parts)


def directories(url: str) -> tuple[str, str, str]:
    """Of a URL; its string functions can't split."""
    first, second, third = url.split("/")[FIRST_DIRECTORY : FIRST_DIRECTORY + 3]
    return first, second, third


if __name__ == "__main__":
    main()
