"""The jobs in Bytewax: ``program.py RUN.json`` runs one process of the cluster until SIGTERM."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import bytewax.operators as op
import orjson
from bytewax.connectors.kafka import KafkaSinkMessage
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow, Stream
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main

EURO_PER_DOLLAR_MILLI = 908
AUCTION_STEP = 123
FIRST_DIRECTORY = 3
WAIT_S = 0.05
"""Between two looks whether the first process has made the recovery store."""


def main() -> None:
    """Build the job and run it."""
    run = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    settings = run["settings"]
    number = int(os.environ["BENCH_COPY"])
    store = Path(f"{run['state_dir']}-recovery")
    if number == 0:
        store.mkdir(parents=True)
        init_db_dir(store, int(settings["recovery_partitions"]))
        store.with_suffix(".ready").touch()
    while not store.with_suffix(".ready").exists():
        time.sleep(WAIT_S)
    cli_main(
        flow_of(run),
        process_id=number,
        addresses=settings["addresses"].split(","),
        epoch_interval=timedelta(seconds=float(settings["snapshot_interval_s"])),
        recovery_config=RecoveryConfig(str(store)),
    )


def flow_of(run: dict[str, Any]) -> Dataflow:
    """The job as a dataflow."""
    flow = Dataflow(run["app"].replace("-", "_"))
    read = kop.input(
        "read",
        flow,
        brokers=[run["bootstrap"]],
        topics=[run["source"]],
        batch_size=int(run["settings"]["batch_size"]),
    )
    if run["job"] == "count":
        auctions = op.flat_map_batch("bids", read.oks, auctions_of)
        counts = op.stateful_map("count", op.key_on("key", auctions, str), count)
        outputs: Stream[Any] = op.map("encode", counts, encoded_count)
    else:
        outputs = op.flat_map_batch("bids", read.oks, stateless(run["job"]))
    kop.output("write", outputs, brokers=[run["bootstrap"]], topic=run["sink"])
    return flow


def auctions_of(messages: list[Any]) -> Iterable[int]:
    """Of the bids."""
    events = map(orjson.loads, (message.value for message in messages))
    return [event["auction"] for event in events if event["type"] == "bid"]


def count(state: int | None, auction: int) -> tuple[int, tuple[int, int]]:
    """One more."""
    number = (state or 0) + 1
    return number, (auction, number)


def encoded_count(keyed: tuple[str, tuple[int, int]]) -> KafkaSinkMessage[bytes, bytes]:
    """As JSON."""
    key, (auction, number) = keyed
    return KafkaSinkMessage(key.encode(), orjson.dumps({"auction": auction, "count": number}))


def stateless(job: str) -> Callable[[list[Any]], Iterable[KafkaSinkMessage[None, bytes]]]:
    """A job without state, batch by batch."""
    convert = {"q0": passed, "q1": converted, "q2": selected, "q22": directories}[job]

    def outputs(messages: list[Any]) -> Iterable[KafkaSinkMessage[None, bytes]]:
        events = map(orjson.loads, (message.value for message in messages))
        rows = (convert(event) for event in events if event["type"] == "bid")
        return [KafkaSinkMessage(None, orjson.dumps(row)) for row in rows if row is not None]

    return outputs


def passed(bid: dict[str, Any]) -> dict[str, Any]:
    """Q0."""
    return {name: bid[name] for name in ("auction", "bidder", "price", "date_time", "extra")}


def converted(bid: dict[str, Any]) -> dict[str, Any]:
    """Q1; the quotient is the nearest double, which prints as the exact decimal."""
    return {**passed(bid), "price": bid["price"] * EURO_PER_DOLLAR_MILLI / 1000}


def selected(bid: dict[str, Any]) -> dict[str, Any] | None:
    """Q2."""
    return {"auction": bid["auction"], "price": bid["price"]} if bid["auction"] % AUCTION_STEP == 0 else None


def directories(bid: dict[str, Any]) -> dict[str, Any]:
    """Q22."""
    parts = bid["url"].split("/")[FIRST_DIRECTORY : FIRST_DIRECTORY + 3]
    found = {f"dir{number}": part for number, part in enumerate(parts, start=1)}
    return {**{name: bid[name] for name in ("auction", "bidder", "price", "channel")}, **found}


if __name__ == "__main__":
    main()
