"""What a rebalance costs a Faust application, with stock ``rocksdb://`` and with ``statemgr://``, on the same broker.

python -m bench.faust_tables                          100,000 and a million keys (15 minutes)
python -m bench.faust_tables --keys 10000 --json x    fewer keys; results also to a file

A key count under load: one worker, two, one, two again, then ``kill -9`` of the older one. Each event carries its
number among those of its key, so that every event says whether its table had all earlier ones. Times are those of the
workers' own clock, which is the machine's. Figures go to the last line as one JSON object, and to build/bench/faust.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.faust_tables.figures import summary
from bench.faust_tables.page import OURS, STOCK, markdown, table, write_docs, write_page
from bench.faust_tables.run import Settings, Variant, measure
from bench.peers.environment import ensure_environment, python_of
from bench.peers.machine import machine
from towpath.broker import LocalBroker

WRITTEN = Path("build/bench/faust")
DOCS = Path("docs/faust.md")

SOONER = 20.0
SOONER_FROM = 1_000_000
"""Keys from which on events have to come so many times sooner: with fewer, both mostly wait for Faust's group."""

STEADY = 0.95
FLAT = 2.0
"""Ten times the keys may take at most so many times as long; medians of few rounds scatter by half."""


def main() -> None:
    """Measure, and print."""
    given = _arguments()
    variants = {
        STOCK: Variant(STOCK, "rocksdb://", str(python_of("faust").absolute())),
        OURS: Variant(OURS, "statemgr://", sys.executable),
    }
    if STOCK in given.stores:
        ensure_environment("faust", _say)
    about = machine()
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="towpath-faust-") as made, LocalBroker(Path(made) / "broker") as broker:
        for keys in given.keys:
            settings = Settings(keys, standbys=given.standbys, rate=given.rate)
            rounds: dict[str, list[dict[str, Any]]] = {store: [] for store in given.stores}
            for _ in range(given.rounds):
                for store in given.stores:
                    rounds[store].append(measure(variants[store], settings, broker.bootstrap, Path(made), _say))
            results.append({"keys": keys, **{store: summary(each) for store, each in rounds.items()}, "rounds": rounds})
    _write(given, results, about)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.faust_tables", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=_list(int), default=[100_000, 1_000_000], help="e.g. 10000,100000")
    parser.add_argument("--rounds", type=int, default=1, help="rounds of each; medians are shown (1)")
    parser.add_argument("--stores", type=_list(str), default=[STOCK, OURS], help=f"of {STOCK},{OURS}")
    parser.add_argument("--rate", type=int, default=Settings.rate, help=f"events a second ({Settings.rate})")
    parser.add_argument("--standbys", type=int, default=0, help="Faust's table_standby_replicas (0; its default is 1)")
    parser.add_argument("--json", type=Path, help="write the results to this file, too")
    parser.add_argument("--write-docs", action="store_true", help=f"put the table into {DOCS}")
    return parser.parse_args()


def _list(kind: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    return lambda text: [kind(each) for each in text.split(",")]


def _write(given: argparse.Namespace, results: list[dict[str, Any]], about: dict[str, Any]) -> None:
    said = {"results": results, "targets": targets(results), "machine": about, "standbys": given.standbys}
    rows = table(results)
    caption = (
        f"{about['processor']}, {about['cores']} cores, {about['memory_gib']} GiB, shared by broker, load and workers; "
        f"{about['date']}; {given.rate} events a second of random keys, {given.rounds} round(s), "
        f"table_standby_replicas={given.standbys}, session time-out {Settings.session_timeout_s:g} s."
    )
    WRITTEN.mkdir(parents=True, exist_ok=True)
    for path in (WRITTEN / "results.json", given.json):
        if path is not None:
            path.write_text(json.dumps(said, indent=1), encoding="utf-8")
    write_page(WRITTEN / "report.html", rows, caption)
    if given.write_docs:
        write_docs(DOCS, rows, caption)
    print(markdown(rows))
    print(json.dumps(said))


def targets(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is to be reached, what was, and whether that is enough; what was not measured is left out."""
    found = []
    for each in results:
        stock, ours = each.get(STOCK), each.get(OURS)
        if stock and ours:
            for change in ("one_to_two", "two_to_one", "kill_9"):
                theirs, own = stock[change]["first_ms"], ours[change]["first_ms"]
                ratio = round(theirs / own, 1) if theirs and own else None
                least = SOONER if each["keys"] >= SOONER_FROM else 1.0
                found.append(_target(f"{change}, {each['keys']} keys: times sooner", least, ratio))
            steady = round(ours["events_per_s"] / stock["events_per_s"], 3)
            found.append(_target(f"steady throughput, {each['keys']} keys", STEADY, steady))
        if ours:
            judged = ours["judged"]
            found.append(_target(f"lost or lacking, {each['keys']} keys", 0, -judged["lost"] - judged["lacking"]))
            found.append(_target(f"state is the oracle's, {each['keys']} keys", 1, int(judged["state_is_oracle"])))
    firsts = [each[OURS]["one_to_two"]["first_ms"] for each in results if OURS in each]
    if len(firsts) > 1 and firsts[0]:
        found.append(
            _target("1 → 2, most keys against fewest: times as long", -FLAT, -round(firsts[-1] / firsts[0], 2))
        )
    return found


def _target(name: str, least: float, measured: float | None) -> dict[str, Any]:
    return {"id": name, "at_least": least, "measured": measured, "ok": measured is not None and measured >= least}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
