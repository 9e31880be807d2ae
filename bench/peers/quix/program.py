"""The jobs in Quix Streams: ``program.py RUN.json`` runs one process until SIGTERM."""

from __future__ import annotations

import json
import os
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

from quixstreams import Application, State
from quixstreams.dataframe import StreamingDataFrame

EURO_PER_DOLLAR = Decimal("0.908")
AUCTION_STEP = 123
FIRST_DIRECTORY = 3


def main() -> None:
    """Build the job and run it."""
    run = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    settings = run["settings"]
    app = Application(
        broker_address=run["bootstrap"],
        consumer_group=run["app"],
        auto_offset_reset="earliest",
        processing_guarantee=run["guarantee"],
        commit_interval=float(settings.get("commit_interval", "5.0")),
        state_dir=f"{run['state_dir']}-{os.environ['BENCH_COPY']}",
        consumer_extra_config=extra(settings, "consumer."),
        producer_extra_config=extra(settings, "producer."),
        loglevel="WARNING",
    )
    source = app.topic(run["source"], key_deserializer="str", value_deserializer="json")
    sink = app.topic(run["sink"], key_serializer="str", value_serializer="json")
    bids = app.dataframe(source).filter(lambda event: event["type"] == "bid")
    if run["job"] == "count":
        counted(bids, keyed=run["keyed"]).to_topic(sink)
    else:
        stateless(bids, run["job"]).to_topic(sink)
    app.run()


def counted(bids: StreamingDataFrame, *, keyed: bool) -> StreamingDataFrame:
    """Bids per auction."""
    bids = bids.apply(lambda bid: {"auction": bid["auction"]})
    if not keyed:
        bids = bids.group_by(
            lambda bid: str(bid["auction"]), name="by-auction", key_serializer="str", key_deserializer="str"
        )
    return bids.apply(count, stateful=True)


def count(bid: dict[str, Any], state: State) -> dict[str, Any]:
    """One more."""
    number = state.get("count", 0) + 1
    state.set("count", number)
    return {"auction": bid["auction"], "count": number}


def stateless(bids: StreamingDataFrame, job: str) -> StreamingDataFrame:
    """A job without state."""
    if job == "q0":
        return bids.apply(lambda bid: chosen(bid, "auction", "bidder", "price", "date_time", "extra"))
    if job == "q1":
        return bids.apply(converted)
    if job == "q2":
        return bids.filter(lambda bid: bid["auction"] % AUCTION_STEP == 0).apply(
            lambda bid: chosen(bid, "auction", "price")
        )
    return bids.apply(directories)


def converted(bid: dict[str, Any]) -> dict[str, Any]:
    """Q1."""
    price = float(bid["price"] * EURO_PER_DOLLAR)
    return {**chosen(bid, "auction", "bidder", "date_time", "extra"), "price": price}


def directories(bid: dict[str, Any]) -> dict[str, Any]:
    """Q22."""
    parts = bid["url"].split("/")[FIRST_DIRECTORY : FIRST_DIRECTORY + 3]
    found = {f"dir{number}": part for number, part in enumerate(parts, start=1)}
    return {**chosen(bid, "auction", "bidder", "price", "channel"), **found}


def chosen(bid: dict[str, Any], *names: str) -> dict[str, Any]:
    """Some fields."""
    return {name: bid[name] for name in names}


def extra(settings: dict[str, str], prefix: str) -> dict[str, Any]:
    """The settings of one kind of client."""
    return {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}


if __name__ == "__main__":
    main()
