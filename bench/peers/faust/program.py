"""The jobs in faust-streaming: ``program.py RUN.json`` runs one worker until SIGTERM."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import faust

EURO_PER_DOLLAR = Decimal("0.908")
FIRST_DIRECTORY = 3

run = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
settings = run["settings"]

app = faust.App(
    run["app"],
    broker=f"kafka://{run['bootstrap']}",
    store=settings["store"],
    key_serializer="json",
    datadir=f"{run['state_dir']}-{os.environ['BENCH_COPY']}",
    topic_partitions=run["partitions"],
    topic_replication_factor=1,
    topic_allow_declare=True,
    stream_buffer_maxsize=int(settings["stream_buffer_maxsize"]),
    stream_wait_empty=settings["stream_wait_empty"] == "True",
    producer_linger=float(settings["producer_linger"]),
    web_enabled=settings["web_enabled"] == "True",
    consumer_auto_offset_reset="earliest",
)


class Bid(faust.Record, serializer="json"):
    """What the count reads."""

    type: str
    auction: int = 0


source = app.topic(run["source"], value_type=Bid)
raw_source = app.topic(run["source"], value_serializer="json")
sink = app.topic(run["sink"], value_serializer="json", key_serializer="raw")


def stateless(bid: dict[str, Any]) -> dict[str, Any] | None:
    """The output of a stateless job for an event, or None."""
    if bid["type"] != "bid":
        return None
    if run["job"] == "q0":
        return {name: bid[name] for name in ("auction", "bidder", "price", "date_time", "extra")}
    if run["job"] == "q1":
        price = float(bid["price"] * EURO_PER_DOLLAR)
        return {**{name: bid[name] for name in ("auction", "bidder", "date_time", "extra")}, "price": price}
    if run["job"] == "q2":
        return {"auction": bid["auction"], "price": bid["price"]} if bid["auction"] % 123 == 0 else None
    parts = bid["url"].split("/")[FIRST_DIRECTORY : FIRST_DIRECTORY + 3]
    directories = {f"dir{number}": part for number, part in enumerate(parts, start=1)}
    return {**{name: bid[name] for name in ("auction", "bidder", "price", "channel")}, **directories}


if run["job"] == "count":
    counts = app.Table("counts", default=int, partitions=run["partitions"])

    @app.agent(source)
    async def count(stream: Any) -> None:
        """Bids per auction."""
        bids = stream.filter(lambda bid: bid.type == "bid")
        # Its topic's name has no application in it unless told so: another run would read this one's.
        name = f"{run['app']}-auction"
        by_auction = bids if run["keyed"] else bids.group_by(Bid.auction, name=name, partitions=run["partitions"])
        async for bid in by_auction:
            counts[bid.auction] += 1
            value = {"auction": bid.auction, "count": counts[bid.auction]}
            await sink.send(key=str(bid.auction), value=value)

else:

    @app.agent(raw_source)
    async def convert(stream: AsyncIterator[dict[str, Any]]) -> None:
        """One event, at most one output."""
        async for bid in stream:
            output = stateless(bid)
            if output is not None:
                await sink.send(value=output)


if __name__ == "__main__":
    sys.argv = [sys.argv[0], "worker", "--loglevel=warn", "--without-web"]
    app.main()
