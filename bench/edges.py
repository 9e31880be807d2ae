"""Rows per processor second through two stages without state that are joined by inner edges; JSON is decoded before.

python -m bench.edges           prints one JSON object as the last line; 2 minutes

Each round drains a short topic and a long one, and divides what the long one has more of rows by what it has more of
processor time: start and warm-up, which both have, are left out. The source stage, which decodes JSON and writes the
first edge, is shown apart.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import polars as pl
import psutil

from bench.edge_query import AUCTION_STEP
from bench.peers.data import CHUNK, SEED
from bench.peers.launch import Launched
from bench.peers.machine import machine
from bench.peers.model import PARTITIONS, Data, Guarantee, Job, Run, RunFailedError, Variant
from bench.peers.systems.towpath import run_command
from bench.peers.topics import Topics
from nexmark import GeneratorConfig, generate
from towpath.broker import LocalBroker

SHORT, LONG = 1_000_000, 5_000_000
ROUNDS = 3
TARGET = 1_000_000
LIMIT_S = 300.0
LOOK_S = 0.5
STAGES = ("source", "first", "second")
STATIC = Variant("towpath", "static", Guarantee.EXACTLY_ONCE, {"static": "true"})


def expected(events: int) -> tuple[int, int]:
    """Bids among the events, and outputs."""
    bids = outputs = 0
    for start in range(0, events, CHUNK):
        rows = pl.DataFrame(generate(GeneratorConfig(seed=SEED), start, min(CHUNK, events - start)))
        auctions = rows.filter(pl.col("type") == "bid")["auction"]
        bids += auctions.len()
        outputs += int((auctions % AUCTION_STEP == 0).sum())
    return bids, outputs


def drain(topics: Topics, source: str, app: str, outputs: int, events: int, work_dir: Path) -> dict[str, float]:
    """Run the query until all outputs are visible; gives the processor seconds of each stage.

    Raises:
        RunFailedError: it ended, or took too long.
    """
    sink = f"{app}-out"
    topics.create(sink)
    run_dir = work_dir / app
    run_dir.mkdir()
    job = Job("edges", "two stages behind a source", "edges", Data.NEXMARK, events)
    run = Run(app, STATIC, job, topics.bootstrap, source, sink, run_dir, events)
    with Launched(run, run_command("bench.edge_query", run, {})) as launched:
        deadline = time.monotonic() + LIMIT_S
        while topics.records(sink) < outputs:
            launched.require_alive()
            if time.monotonic() > deadline:
                raise RunFailedError(f"not done after {LIMIT_S:.0f} s: {launched.last_lines()}")
            time.sleep(LOOK_S)
        used = _used(app)
    topics.remove(app)
    return used


def _used(app: str) -> dict[str, float]:
    """Stage of the application → processor seconds so far."""
    used = {}
    for process in psutil.process_iter(["cmdline", "cpu_times"]):
        words = process.info["cmdline"] or []
        if "--stage" in words and f"app={app}" in words:
            times = process.info["cpu_times"]
            used[words[words.index("--stage") + 1]] = times.user + times.system
    return used


def measure(rounds: int) -> dict[str, object]:
    """All rounds on one broker."""
    there = machine()
    with tempfile.TemporaryDirectory(prefix="towpath-edges-") as made, LocalBroker(Path(made) / "broker") as broker:
        topics = Topics(broker.bootstrap)
        sizes = {events: expected(events) for events in (SHORT, LONG)}
        sources = {events: topics.preload(Data.NEXMARK, events, PARTITIONS, _say) for events in sizes}
        rates = []
        for number in range(rounds):
            used = {
                events: drain(topics, sources[events], f"edges{number}-{events}", sizes[events][1], events, Path(made))
                for events in sizes
            }
            rows = sizes[LONG][0] - sizes[SHORT][0]
            spent = {stage: used[LONG][stage] - used[SHORT][stage] for stage in STAGES}
            rates.append({"edges": rows / (spent["first"] + spent["second"]), "source": rows / spent["source"]})
            _say(f"round {number + 1}: {rates[-1]['edges']:,.0f} rows per processor second through two stages")
    found = {name: [round(each[name]) for each in rates] for name in ("edges", "source")}
    median = statistics.median(found["edges"])
    target = {"id": "rows per processor second through two stages", "target": TARGET, "measured": median}
    return {"rows_per_cpu_s": found, "targets": [{**target, "ok": median >= TARGET}], "machine": there}


def _say(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="default %(default)d")
    print(json.dumps(measure(parser.parse_args().rounds)))


if __name__ == "__main__":
    main()
