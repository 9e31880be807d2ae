"""Towpath and its peers, side by side: the same jobs, data, broker and guarantee, one system after another.

python -m bench.peers                                       everything; hours
python -m bench.peers --quick                               ours, Kafka Streams and Faust on the key count; 10 minutes
python -m bench.peers --systems towpath,quix --jobs q0,q1 --rounds 3 --keep

Figures go to build/bench/peers/results.jsonl, a line for every run; page and pictures beside it are made of them.
The last line on standard output is one JSON object with the targets.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from bench.peers.draining import Draining
from bench.peers.jobs import JOBS, SCALING, job_named
from bench.peers.latency import Latency
from bench.peers.machine import machine
from bench.peers.model import Guarantee, System, Variant
from bench.peers.places import WRITTEN
from bench.peers.report import report
from bench.peers.results import load, summarised
from bench.peers.rounds import Choice, Measure, carry_out
from bench.peers.systems import all_systems
from bench.peers.targets import targets

RESULTS, MACHINE = WRITTEN / "results.jsonl", WRITTEN / "machine.json"
ROUNDS = 5
RUN_LIMIT_S = 1200.0
"""Kafka Streams takes seven minutes for the largest job on two cores."""

RATES = "1000,10000,30000"
SECONDS = 30.0

_TERMINATED = 128 + signal.SIGTERM
"""Exit status; what was started is ended on the way out."""

QUICK_SYSTEMS = ("towpath", "kafka-streams", "faust")
QUICK_JOBS = ("count-bids",)
QUICK_GUARANTEES = (Guarantee.EXACTLY_ONCE,)
QUICK_SETTINGS = ("default", "best")
QUICK_ROUNDS = 2
QUICK_SCALE = 0.4


@dataclass(frozen=True)
class Options:
    """What was asked for."""

    systems: Sequence[System]
    measures: Sequence[Measure]
    rounds: int
    limit_s: float
    guarantees: Sequence[str]
    settings: Sequence[str]
    keep: bool
    write_docs: bool
    report_only: bool

    def wanted(self, variants: Sequence[Variant]) -> Sequence[Variant]:
        """The chosen ones of a system's variants; one that does not offer what was chosen shows what it offers."""
        of_guarantee = [each for each in variants if _among(each.guarantee, self.guarantees)] or variants
        return [each for each in of_guarantee if _among(each.setting, self.settings)] or of_guarantee


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, write, and print."""
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    if not options.report_only:
        _measure(options)
    there = json.loads(MACHINE.read_text(encoding="utf-8"))
    summaries = summarised(load(RESULTS))
    reached = targets(summaries)
    report(summaries, reached, there, write_docs=options.write_docs)
    print(json.dumps({"targets": reached, "machine": there}))


def _measure(options: Options) -> None:
    if not options.keep:
        RESULTS.unlink(missing_ok=True)
    WRITTEN.mkdir(parents=True, exist_ok=True)
    MACHINE.write_text(json.dumps(machine()), encoding="utf-8")
    choice = Choice(options.systems, options.rounds, options.limit_s, options.wanted, RESULTS)
    carry_out(choice, options.measures, _say)


def parse(arguments: Sequence[str] | None = None) -> Options:
    """The options of a command line.

    Raises:
        SystemExit: they can't be; cause and remedy are printed.
    """
    parser = _parser()
    given = parser.parse_args(arguments)
    systems = {system.name: system for system in all_systems()}
    names = _list(given.systems) or (QUICK_SYSTEMS if given.quick else tuple(systems))
    jobs = _list(given.jobs) or (QUICK_JOBS if given.quick else tuple(job.name for job in JOBS))
    if given.jobs == "none":
        jobs = ()
    if given.jobs == "scaling":
        jobs = tuple(job.name for job in SCALING)
    for name in names:
        if name not in systems:
            parser.error(f"there is no system {name!r}; systems: {', '.join(systems)}")
    try:
        chosen = [job_named(name) for name in jobs]
    except ValueError as error:
        parser.error(str(error))
    scale = given.scale or (QUICK_SCALE if given.quick else 1.0)
    drains: list[Measure] = [Draining(job, scale) for job in chosen]
    rates = [int(rate) for rate in _list(given.rates if given.rates is not None else "" if given.quick else RATES)]
    return Options(
        [systems[name] for name in names],
        drains + [Latency(rate, given.seconds) for rate in rates],
        given.rounds or (QUICK_ROUNDS if given.quick else ROUNDS),
        given.limit,
        _list(given.guarantees) or (QUICK_GUARANTEES if given.quick else ()),
        _list(given.settings) or (QUICK_SETTINGS if given.quick else ()),
        given.keep,
        given.write_docs,
        given.report_only,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a small choice of everything below, in ten minutes")
    parser.add_argument("--systems", default="", help=f"some of {', '.join(each.name for each in all_systems())}")
    parser.add_argument("--jobs", default="", help=f"some of {', '.join(job.name for job in JOBS)}; scaling; none")
    parser.add_argument("--rates", default=None, help=f"of the latency measurement; default {RATES}, none with --quick")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of load that count, at each rate")
    parser.add_argument("--guarantees", default="", help=f"some of {', '.join(Guarantee)}")
    parser.add_argument("--settings", default="", help="some of the systems' settings, such as default,best,each")
    parser.add_argument("--rounds", type=int, default=0, help=f"of everything; {ROUNDS} unless told otherwise")
    parser.add_argument("--scale", type=float, default=0.0, help="factor for the numbers of events, such as 0.1")
    parser.add_argument("--limit", type=float, default=RUN_LIMIT_S, help="longest run in seconds; default %(default)g")
    parser.add_argument(
        "--keep", action="store_true", help="add to the figures of former calls instead of beginning anew"
    )
    parser.add_argument("--write-docs", action="store_true", help="write docs/benchmarks.md and its pictures, too")
    parser.add_argument("--report-only", action="store_true", help="measure nothing, write the page of what there is")
    return parser


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _among(name: str, chosen: Sequence[str]) -> bool:
    return not chosen or name in chosen


def _say(text: str) -> None:
    print(text, flush=True)
