"""Events per processor second of every NEXMark query on the services; sinks are topics, exactly once.

python -m bench.queries                      all queries; prints one JSON object as the last line; 40 minutes
python -m bench.queries --queries q1,q3      some of them
python -m bench.queries --write-docs         writes docs/nexmark-throughput.md, too

Each round drains a short topic and a long one, and divides what the long one has more of events by what it has more of
processor time: start and warm-up, which both have, are left out. All kinds of events count, also those that a query
does not read, as in the published figures.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers.launch import Launched
from bench.peers.machine import machine
from bench.peers.model import PARTITIONS, Command, Data, Guarantee, Job, Run, RunFailedError, Variant
from bench.peers.page import table
from bench.peers.places import ROOT
from bench.peers.systems.towpath import query_command
from bench.peers.topics import Topics
from towpath.broker import LocalBroker
from towpath.query.loading import load_query

SHORT, LONG = 200_000, 1_000_000
ROUNDS = 3
LIMIT_S = 600.0
LOOK_S = 0.25
SETTLED_S = 2.0
"""Nothing new in any topic for so long, once all input is taken: it is done."""

PAGE = ROOT / "docs" / "nexmark-throughput.md"
STATIC = Variant("towpath", "static", Guarantee.EXACTLY_ONCE, {"static": "true", "commit_interval_ms": "1000"})

FLINK_PER_CORE = {
    "q0": 155_000, "q1": 157_900, "q2": 175_200, "q3": 152_100, "q4": 34_300, "q5": 22_100, "q7": 12_300,
    "q8": 146_100, "q9": 14_200, "q10": 57_800, "q11": 39_700, "q12": 75_700, "q13": 130_700, "q14": 161_200,
    "q15": 72_400, "q16": 18_700, "q17": 116_800, "q18": 53_700, "q19": 44_000, "q20": 19_000, "q21": 98_500,
    "q22": 130_000,
}  # fmt: skip
"""Events per second and core, published in GUIDE_V1.md of the Flink community's repository nexmark/nexmark: eight task
managers, an in-process generator instead of a topic, nothing decoded, and a sink that drops everything."""

QUERIES = tuple(f"q{number}" for number in range(23))


@dataclass(frozen=True)
class Used:
    """What a drain took: processor seconds of all processes, and records in the sinks."""

    cpu_s: float
    outputs: int


def drain(topics: Topics, source: str, query: str, events: int, work_dir: Path) -> Used:
    """Run a query until it has taken all events and nothing new comes out.

    Raises:
        RunFailedError: it ended, or took too long.
    """
    plan = load_query(f"queries.{query}", {"topic": source})
    readers = [stage.name for stage in plan.stages if any(each.topic == source for each in stage.inputs)]
    sinks = [output.topic for stage in plan.stages for output in stage.outputs if not output.inner]
    work_dir.mkdir()
    job = Job(query, query, query, Data.NEXMARK, events)
    run = Run(plan.app, STATIC, job, topics.bootstrap, source, sinks[0] if sinks else "", work_dir, events)
    with Launched(run, _command(query, run)) as launched:
        deadline = time.monotonic() + LIMIT_S
        seen, since = {}, time.monotonic()
        while time.monotonic() - since < SETTLED_S:
            time.sleep(LOOK_S)
            launched.require_alive()
            now = {name: topics.committed_ends(name, topics.partition_count(name)) for name in topics.names(plan.app)}
            taken = [topics.consumed(f"{plan.app}.{stage}", source) for stage in readers]
            if now != seen or min(taken) < events:
                seen, since = now, time.monotonic()
            if time.monotonic() > deadline:
                raise RunFailedError(f"{query} was not done after {LIMIT_S:.0f} s: {launched.last_lines()}")
        used = Used(launched.tree.cpu_s(), sum(topics.records(sink) for sink in sinks))
    topics.remove(plan.app)
    return used


def _command(query: str, run: Run) -> Command:
    return query_command(f"queries.{query}", run, {"topic": run.source})


def measure(queries: Sequence[str], rounds: int) -> dict[str, Any]:
    """All rounds on one broker; a query that fails has its reason instead of figures."""
    there = machine()
    found: dict[str, list[dict[str, float]]] = {query: [] for query in queries}
    failed: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="towpath-queries-") as made, LocalBroker(Path(made) / "broker") as broker:
        topics = Topics(broker.bootstrap)
        sources = {events: topics.preload(Data.NEXMARK, events, PARTITIONS, _say) for events in (SHORT, LONG)}
        for number, query in itertools.product(range(rounds), queries):
            if query in failed:
                continue
            try:
                used = {
                    events: drain(topics, source, query, events, Path(made) / f"{query}-{number}-{events}")
                    for events, source in sources.items()
                }
            except RunFailedError as error:
                failed[query] = str(error)
                _say(f"{query}: {error}")
                continue
            rate = (LONG - SHORT) / (used[LONG].cpu_s - used[SHORT].cpu_s)
            found[query].append({"events_per_cpu_s": rate, "outputs_per_event": used[LONG].outputs / LONG})
            _say(f"{query}, round {number + 1}: {rate:,.0f} events per processor second")
    return {"queries": {name: rows for name, rows in found.items() if rows}, "failed": failed, "machine": there}


def page(results: Mapping[str, Any]) -> str:
    """The table, for people."""
    there = results["machine"]
    rows = []
    for query, rounds in results["queries"].items():
        rates = [each["events_per_cpu_s"] for each in rounds]
        flink = FLINK_PER_CORE.get(query)
        rows.append(
            (
                query,
                f"{statistics.median(rates):,.0f}",
                f"{min(rates):,.0f} – {max(rates):,.0f}",
                f"{rounds[0]['outputs_per_event']:.3g}",
                f"{flink:,}" if flink else "–",
            )
        )
    head = ("query", "events per processor second", "lowest – highest", "outputs per event", "Flink, published")
    return f"""\
# Throughput of the NEXMark queries

Every query on the services, exactly once, JSON in and out, 8 partitions, one replica a stage, by `make bench-queries`.
A topic of {LONG:,} events is drained, and one of {SHORT:,}; the difference of events is divided by the difference of
processor seconds of all processes, so starts are left out. Medians of {_rounds(results)} rounds.

Measured on {there["date"]}: {there["processor"]}, {there["cores"]} cores, {there["memory_gib"]} GiB, {there["system"]},
Python {there["python"]}.

Beside them stand the Flink community's published figures per core (nexmark/nexmark, GUIDE_V1.md: 8 task managers on
three or more machines, 100 million events). They are of another machine, and of other work: events come from a
generator inside the job, so nothing is read from Kafka or decoded, and results are dropped. They say how queries
compare with one another more than how systems do; `docs/benchmarks.md` has both systems on one machine.

{table(head, rows)}{_failed(results["failed"])}"""


def _rounds(results: Mapping[str, Any]) -> str:
    numbers = sorted({len(rounds) for rounds in results["queries"].values()})
    return " to ".join(str(number) for number in dict.fromkeys((numbers[0], numbers[-1]))) if numbers else "0"


def _failed(failed: Mapping[str, str]) -> str:
    return "".join(f"\n{query} has no figure: {reason.splitlines()[0]}\n" for query, reason in failed.items())


def _say(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", default=",".join(QUERIES), help="some of q0 to q22, by commas; default all")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="default %(default)d")
    parser.add_argument("--write-docs", action="store_true", help="write docs/nexmark-throughput.md")
    given = parser.parse_args()
    chosen = [name.strip() for name in given.queries.split(",") if name.strip()]
    unknown = [name for name in chosen if name not in QUERIES]
    if unknown:
        parser.error(f"there is no query {unknown[0]!r}; queries: {', '.join(QUERIES)}")
    results = measure(chosen, given.rounds)
    if given.write_docs:
        PAGE.write_text(page(results), encoding="utf-8")
    print(json.dumps(results))


if __name__ == "__main__":
    main()
