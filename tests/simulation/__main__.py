"""``python -m tests.simulation``: runs many seeds on all cores; stops at the first that fails.

A hash seed is set for all processes, so that a seed repeats also where the order of a set matters.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.coverage import Coverage, report
from tests.simulation.run import Failed, Failure, attempt, run_seed

CHUNK = 10
"""Seeds a worker takes at once."""

EVERY_S = 5.0
"""Between two lines of progress."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run seeds; 1 if one fails."""
    options = _parse(arguments)
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *map(str, sys.argv[1:])],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    seeds = range(options.seed, options.seed + options.runs)
    if options.trace or len(seeds) == 1:
        return _one_by_one(seeds, trace=options.trace)
    return _on_all_cores(seeds, options.processes)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="number of seeds")
    parser.add_argument("--seed", type=int, default=0, help="the first of them")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--trace", action="store_true", help="print every event, Kafka calls included")
    return parser.parse_args(arguments)


def _one_by_one(seeds: Sequence[int], *, trace: bool) -> int:
    coverage = Coverage()
    for seed in seeds:
        try:
            outcome = run_seed(seed, trace=trace)
        except Failure as failure:
            return _failed(seed, str(failure), coverage + failure.coverage)
        coverage.update(outcome.coverage)
        if trace:
            print("\n".join(map(str, outcome.history)))
        print(f"seed {seed} passes: {outcome.summary}, digest {outcome.digest}")
    print(f"\n{report(coverage)}")
    return 0


def _on_all_cores(seeds: range, processes: int) -> int:
    started_s, done, shown_s, coverage = time.monotonic(), 0, time.monotonic(), Coverage()
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for seed, outcome in pool.map(attempt, seeds, chunksize=CHUNK):
            coverage.update(outcome.coverage)
            if isinstance(outcome, Failed):
                pool.shutdown(wait=False, cancel_futures=True)
                return _failed(seed, outcome.text, coverage)
            done += 1
            if time.monotonic() - shown_s >= EVERY_S:
                shown_s = time.monotonic()
                print(f"{done} of {len(seeds)} seeds pass, {_pace(done, started_s)}", flush=True)
    print(f"{report(coverage)}\n")
    print(f"{done} seeds pass, {_pace(done, started_s)}")
    return 0


def _pace(done: int, started_s: float) -> str:
    took_s = time.monotonic() - started_s
    return f"{took_s:.0f} s, {done / max(took_s, 0.001):.0f} a second"


def _failed(seed: int, text: str, coverage: Coverage) -> int:
    """The history comes first, and last what most people look for."""
    print(f"{text}\n\n{report(coverage)}\n")
    print(f"seed {seed} fails: {text.splitlines()[-1]}\nit repeats by:  make simulate SEED={seed} RUNS=1")
    return 1


if __name__ == "__main__":
    sys.exit(main())
