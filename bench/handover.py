"""What a hand-over costs: 1 → 2 replicas with a million keys, per strategy, seen from outside.

python -m bench.handover                 all strategies; figures as one JSON object on the last line
python -m bench.handover --write-docs    the picture in docs/images, too
python -m bench.handover --no-peer       without Kafka Streams

Each strategy gets a fresh application over the same broker, the same keys and the same load; before the first, the
broker's code is warmed by the same application for a while. Times begin when the assignment of a moved task is seen in
the control log, which is the move's start, and end when an output is visible to a read_committed reader. What the start
of the newcomer's two processes costs on the same machine before that is given apart (``pause_starting_ms``).

So that ``replay`` is no straw man, Kafka Streams restores as many keys in as many partitions on the same broker: under
the same load, and, as is then done with ``replay``, too, without any (:mod:`bench.streams_restore`).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench import padded_count
from bench.handover_figures import (
    MoveTimes,
    first_outputs_ms,
    late,
    longest_gaps_ms,
    moves_of,
    progress_totals,
    spread,
    worst_latencies_ms,
)
from bench.handover_plot import plot
from bench.restore_figures import UNDER_LOAD, WITHOUT_LOAD, Restore, replayed, target
from bench.streams_restore import StreamsRestore, streams_restore
from bench.tails import ControlTail, Outputs, OutputTail
from bench.zipf_load import ZipfKeys, ZipfLoad
from statemgr.layout import changelog_topic, control_topic
from statemgr.partitioner import partitions_of
from tests.harness.cluster import Cluster, clustered
from tests.harness.waiting import wait_for
from towpath.broker import LocalBroker

QUERY = "bench.padded_count"
STAGE = "count"
PARTITIONS = 8
STRATEGIES = ("hybrid", "replay", "restart")
COMPARED = "replay"
"""The strategy that does what Kafka Streams does."""

HOT_KEYS = 64
EXPONENT = 1.1
SEED = 7
STEADY_S = 10.0
"""Of undisturbed load before the change of size: the yardstick for gaps."""

WARM_UP_S = 120.0
"""Of load before all measuring: the broker's optimising compiler takes 40 % of a core for two minutes."""

AFTER_S = 5.0
"""Watched after everything is done, and after the kill."""

MOVE_LIMIT_S = 300.0
"""For the whole change of size, replay of a million keys included."""

PRELOAD_LIMIT_S = 300.0
"""For a million keys, one row at a time: half a minute on an idle machine."""

ONE_POLL_MS = 20.0
"""Between two batches of a replica under light load."""

ENTRY_OVERHEAD = 3
"""Bytes of an entry's key in a store beyond its text: bin and table."""


@dataclass(frozen=True)
class Settings:
    """Size of a run."""

    keys: int
    rate: int
    steady_s: float
    warm_up_s: float


@dataclass(frozen=True)
class Measured:
    """One strategy's run: figures, and what the picture needs."""

    figures: dict[str, Any]
    outputs: Outputs
    began_s: float
    scaled_s: float
    done_s: float
    ended_s: float


def measure(
    strategy: str,
    bootstrap: str,
    work_dir: Path,
    settings: Settings,
    say: Callable[[str], None],
    peer: StreamsRestore | None = None,
) -> Measured:
    """Run one strategy; a peer, if there is one, restores beside it."""
    app = f"handover-{strategy}"
    cluster = _cluster(app, bootstrap, work_dir / strategy)
    keys = ZipfKeys(settings.keys, EXPONENT, SEED)
    load = ZipfLoad(bootstrap, cluster.source, keys, partitions=PARTITIONS, rate=settings.rate)
    with clustered(cluster):
        _await_begun(cluster)
        say(f"{strategy}: preloading {load.preload():,} keys")
        cluster.drain(PRELOAD_LIMIT_S)
        cluster.coordinator.post("/scale", {"stage": STAGE, "manner": {"strategy": strategy}})
        with (
            ControlTail(bootstrap, control_topic(app)) as control,
            OutputTail(bootstrap, cluster.plan.stages[-1].outputs[0].topic) as tail,
            load,
        ):
            began_s = _pass(settings.steady_s)
            say(f"{strategy}: 1 → 2 at {settings.rate:,} events/s")
            scaled_s = time.time()
            cluster.scale(STAGE, 2)
            polled = _await_moved(cluster, control)
            done_s = time.time()
            _pass(AFTER_S)
            seen = list(control.seen)
            moves = moves_of(seen, STAGE)
            say(f"{strategy}: kill -9 of a stage whose state manager lives")
            killed_s, victim = _kill_one(cluster)
            _await_output(tail, moves, victim, killed_s)
            cluster.await_settled(MOVE_LIMIT_S)
            _pass(AFTER_S)
            outputs, ended_s = tail.so_far(), time.time()
            if peer is not None:
                peer.compare(UNDER_LOAD, changelog_topic(app, STAGE), replayed(seen, STAGE))
        if peer is not None and peer.failure is None:
            say(f"{strategy}: 1 → 2 again, without load")
            peer.compare(WITHOUT_LOAD, changelog_topic(app, STAGE), _replay_again(cluster, bootstrap))
    figures = {
        **_move_figures(outputs, moves, keys, scaled_s, done_s, settings),
        **_byte_figures(polled, moves, settings.keys),
        "total_s": round(done_s - min(move.assigned_s for move in moves.values()), 2),
        "after_kill_ms": _after_kill(outputs, moves, victim, killed_s),
    }
    return Measured(figures, outputs, began_s, scaled_s, done_s, ended_s)


def warm_up(bootstrap: str, work_dir: Path, settings: Settings) -> None:
    """Let the broker optimise the code that the load runs through, which takes processor time while it does."""
    cluster = _cluster("handover-warm-up", bootstrap, work_dir / "warm-up")
    keys = ZipfKeys(HOT_KEYS, EXPONENT, SEED)
    load = ZipfLoad(bootstrap, cluster.source, keys, partitions=PARTITIONS, rate=settings.rate)
    with clustered(cluster):
        _await_begun(cluster)
        with load:
            _pass(settings.warm_up_s)


def _cluster(app: str, bootstrap: str, work_dir: Path) -> Cluster:
    settings = {"app": app, "partitions": PARTITIONS}
    return Cluster(QUERY, bootstrap, work_dir, settings=settings, source_partitions=PARTITIONS)


def _await_begun(cluster: Cluster) -> None:
    cluster.coordinator.await_leading()
    cluster.await_settled()


def _pass(seconds: float) -> float:
    """Let time pass; gives when it began."""
    began_s = time.time()
    time.sleep(seconds)
    return began_s


def _await_moved(cluster: Cluster, control: ControlTail) -> list[dict[str, Any]]:
    """Wait until the newcomer has all of its state; gives every answer about moves on the way."""
    polled: list[dict[str, Any]] = []

    def look() -> bool:
        answer = cluster.coordinator.get("/migrations")
        if answer is not None and answer[0] == 200:
            polled.extend(answer[1])
        moves = moves_of(control.seen, STAGE)
        return bool(moves) and all(move.done_s is not None for move in moves.values()) and not cluster.unsettled()

    wait_for("the state has moved", look, MOVE_LIMIT_S, cluster.describe)
    return polled


def _replay_again(cluster: Cluster, bootstrap: str) -> Restore | None:
    """Back to one replica, and to two again; the newcomer has lost its disk."""
    newcomer = cluster.working(STAGE)[-1]
    cluster.scale(STAGE, 1)
    cluster.await_settled(MOVE_LIMIT_S)

    def look() -> bool:
        cluster.tend()
        return newcomer.gone

    wait_for("the newcomer has left", look, MOVE_LIMIT_S, cluster.describe)
    newcomer.lose_disk()
    with ControlTail(bootstrap, control_topic(cluster.plan.app)) as control:
        cluster.scale(STAGE, 2)
        _await_moved(cluster, control)
        return replayed(list(control.seen), STAGE)


def _kill_one(cluster: Cluster) -> tuple[float, str]:
    """Kill the newcomer's stage, report it and start it again, as its supervisor does."""
    pod = cluster.working(STAGE)[-1]
    killed_s = time.time()
    pod.stage.kill()
    pod.report_died()
    pod.revive()
    return killed_s, pod.name


def _await_output(tail: OutputTail, moves: dict[int, MoveTimes], victim: str, killed_s: float) -> None:
    """Wait until every partition of the victim puts out again."""
    theirs = _of(moves, victim)
    wait_for(
        "the dead replica's tasks put out again",
        lambda: all(_first_after(tail.so_far(), partition, killed_s) is not None for partition in theirs),
        MOVE_LIMIT_S,
    )


def _move_figures(
    outputs: Outputs, moves: dict[int, MoveTimes], keys: ZipfKeys, scaled_s: float, done_s: float, settings: Settings
) -> dict[str, Any]:
    moved = sorted(moves)
    unmoved = [partition for partition in range(PARTITIONS) if partition not in moves]
    move_s = min(move.assigned_s for move in moves.values())
    window = (move_s, min(done_s, outputs.visible_s.max()))
    starting = (scaled_s, move_s)
    steady = (scaled_s - settings.steady_s + 1.0, scaled_s)
    first = first_outputs_ms(outputs, moves, keys.by_rank[:HOT_KEYS].tolist())
    return {
        "moved_tasks": len(moved),
        "first_output_ms": spread(first.values()),
        "tasks_with_a_hot_key": len(first),
        "pause_moved_ms": spread(longest_gaps_ms(outputs, moved, *window).values()),
        "pause_unmoved_ms": spread(longest_gaps_ms(outputs, unmoved, *window).values()),
        "pause_starting_ms": spread(longest_gaps_ms(outputs, range(PARTITIONS), *starting).values()),
        "steady_gap_ms": spread(longest_gaps_ms(outputs, range(PARTITIONS), *steady).values()),
        "worst_latency_moved_ms": spread(worst_latencies_ms(outputs, moved, *window).values()),
        "worst_latency_unmoved_ms": spread(worst_latencies_ms(outputs, unmoved, *window).values()),
        "worst_latency_steady_ms": spread(worst_latencies_ms(outputs, range(PARTITIONS), *steady).values()),
        "late_moved": late(outputs, moved, *window),
        "outputs": len(outputs.visible_s),
    }


def _byte_figures(polled: list[dict[str, Any]], moves: dict[int, MoveTimes], keys: int) -> dict[str, Any]:
    """Bytes that travelled, against those of the entries that changed owner."""
    texts = [str(key).encode() for key in range(keys)]
    partitions = partitions_of(texts, PARTITIONS)
    lengths = np.array([len(text) for text in texts]) + ENTRY_OVERHEAD + padded_count.VALUE_BYTES
    live = int(lengths[np.isin(partitions, list(moves))].sum())
    told = progress_totals(polled)
    moved = sum(int(progress.get("bytes", 0)) for progress in told.values())
    return {
        "live_bytes": live,
        "moved_bytes": moved if told else None,
        "moved_over_live": round(moved / live, 3) if live and told else None,
        "progress": told,
    }


def _after_kill(outputs: Outputs, moves: dict[int, MoveTimes], victim: str, killed_s: float) -> dict[str, Any]:
    first = (_first_after(outputs, partition, killed_s) for partition in _of(moves, victim))
    return spread(None if at_s is None else round((at_s - killed_s) * 1000, 1) for at_s in first)


def _of(moves: dict[int, MoveTimes], owner: str) -> list[int]:
    return [partition for partition, move in moves.items() if move.owner == owner]


def _first_after(outputs: Outputs, partition: int, at_s: float) -> float | None:
    """When the first output of what was emitted after a moment became visible."""
    visible = outputs.visible_s[(outputs.partition == partition) & (outputs.sched_s >= at_s)]
    return float(visible.min()) if visible.size else None


@contextmanager
def _broker() -> Iterator[tuple[str, Path]]:
    with (
        tempfile.TemporaryDirectory(prefix="towpath-bench-") as made,
        LocalBroker(Path(made) / "broker") as broker,
    ):
        yield broker.bootstrap, Path(made)


def main() -> None:
    """Measure, draw, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=5_000, help="events a second")
    parser.add_argument("--steady", type=float, default=STEADY_S, help="seconds of load before the change of size")
    parser.add_argument("--warm-up", type=float, default=WARM_UP_S, help="seconds of load before all measuring")
    parser.add_argument("--strategies", nargs="+", default=list(STRATEGIES))
    parser.add_argument("--no-peer", action="store_true", help="without Kafka Streams beside replay")
    parser.add_argument("--write-docs", action="store_true", help="put the picture into docs/images, too")
    given = parser.parse_args()
    settings = Settings(given.keys, given.rate, given.steady, given.warm_up)
    load_before = os.getloadavg()[0]
    measured: dict[str, Measured] = {}
    restores: dict[str, Any] | None = None
    with _broker() as (bootstrap, work_dir):
        print(f"warming the broker for {settings.warm_up_s:g} s", flush=True)
        warm_up(bootstrap, work_dir, settings)
        peer = None
        if COMPARED in given.strategies and not given.no_peer:
            peer = streams_restore(bootstrap, work_dir / "kafka-streams", _say)
        if peer is not None:
            peer.fill(settings.keys, PARTITIONS)
        for strategy in given.strategies:
            beside = peer if strategy == COMPARED else None
            measured[strategy] = measure(strategy, bootstrap, work_dir, settings, _say, beside)
        if peer is not None:
            restores = peer.figures()
    picture = plot(measured, Path("build/bench/handover.png"))
    if given.write_docs:
        shutil.copy(picture, Path("docs/images/handover.png"))
    print(json.dumps(_result(measured, settings, load_before, restores)))


def _say(text: str) -> None:
    print(text, flush=True)


def _result(
    measured: dict[str, Measured], settings: Settings, load_before: float, restores: dict[str, Any] | None
) -> dict[str, Any]:
    figures = {strategy: run.figures for strategy, run in measured.items()}
    beside = {} if restores is None else {"kafka_streams_restore": restores}
    return {
        "keys": settings.keys,
        "value_bytes": padded_count.VALUE_BYTES,
        "rate": settings.rate,
        "warm_up_s": settings.warm_up_s,
        "zipf_exponent": EXPONENT,
        "partitions": PARTITIONS,
        "strategies": figures,
        **beside,
        "targets": [*_targets(figures), *(target(each) for each in beside.values())],
        "machine": {"processor": platform.machine(), "cores": os.cpu_count(), "load_before": load_before},
    }


def _targets(figures: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """What `hybrid` is meant to reach, what it reached, and whether that is enough; unmeasured ones are left out."""
    hybrid, replay = figures.get("hybrid"), figures.get("replay")
    if hybrid is None:
        return []
    poll = (hybrid["steady_gap_ms"]["max"] or 0.0) + ONE_POLL_MS
    targets = [
        _at_most("pause of moved tasks, median, ms", 60.0, hybrid["pause_moved_ms"]["median"]),
        _at_most("pause of moved tasks, worst, ms", 250.0, hybrid["pause_moved_ms"]["max"]),
        _at_most("pause of unmoved tasks, worst, ms", poll, hybrid["pause_unmoved_ms"]["max"]),
        _at_most("bytes moved / live bytes that changed owner", 1.1, hybrid["moved_over_live"]),
        _at_most("working again after kill -9 of the stage, worst, ms", 2000.0, hybrid["after_kill_ms"]["max"]),
    ]
    if replay is not None:
        first, theirs = hybrid["first_output_ms"]["median"], replay["first_output_ms"]["median"]
        ratio = round(theirs / first, 1) if first and theirs else None
        targets.append(
            {
                "id": "first output of a moved hot key, times sooner than replay",
                "target": 50.0,
                "measured": ratio,
                "ok": ratio is not None and ratio >= 50.0,
            }
        )
    return targets


def _at_most(name: str, target: float, measured: float | None) -> dict[str, Any]:
    return {"id": name, "target": target, "measured": measured, "ok": measured is not None and measured <= target}


if __name__ == "__main__":
    main()
