"""Measures how fast one process makes NEXMark events, as tables and as JSON.

Each form is made several times in a single thread, in calls of the given size over fresh parts of the stream;
the best and the median rate are reported. Writing the result anywhere is not part of the measurement.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from nexmark import BASE_TIME_MS, MAX_EVENTS_PER_CALL, GeneratorConfig, generate, generate_json, keys

FIRST_EVENT = 1_000_000
"""Measurements start here, where the window of active people is full, as in a long run."""


def _stamped_json(config: GeneratorConfig, start: int, count: int) -> pa.BinaryArray:
    schedule = np.arange(count, dtype=np.int64) // 100 + BASE_TIME_MS
    return generate_json(config, start, count, sched_ms=schedule)


def _auction_keys(config: GeneratorConfig, start: int, count: int) -> pa.BinaryArray:
    return keys(config, start, count, 1, "auction")


FORMS: dict[str, Callable[[GeneratorConfig, int, int], Any]] = {
    "generate": generate,
    "generate_json": generate_json,
    "generate_json_sched": _stamped_json,
    "keys": _auction_keys,
}


def rates(
    make: Callable[[GeneratorConfig, int, int], Any], events: int, call: int, repeats: int
) -> tuple[list[float], float]:
    """Events per second of each repetition, and the bytes per event of the result."""
    config = GeneratorConfig()
    calls = max(1, events // call)
    size = make(config, FIRST_EVENT, call).nbytes / call
    measured = []
    for repeat in range(repeats):
        first = FIRST_EVENT + repeat * calls * call
        begin = time.perf_counter()
        for i in range(calls):
            make(config, first + i * call, call)
        measured.append(calls * call / (time.perf_counter() - begin))
    return measured, size


def measure(events: int, call: int, repeats: int) -> dict[str, Any]:
    """The whole record of a run."""
    forms = {}
    for name, make in FORMS.items():
        measured, size = rates(make, events, call, repeats)
        forms[name] = {
            "best_events_per_s": round(max(measured)),
            "median_events_per_s": round(statistics.median(measured)),
            "bytes_per_event": round(size, 1),
        }
    return {
        "benchmark": "nexmark_generator",
        "events": events,
        "events_per_call": call,
        "repeats": repeats,
        "machine": {"processor": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()[0]},
        "versions": {"python": platform.python_version(), "numpy": np.__version__, "pyarrow": pa.__version__},
        "forms": forms,
    }


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is too small: give a number of at least 1")
    return number


def main() -> int:
    """Reads the options, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=_positive, default=500_000, help="events per repetition (%(default)s)")
    parser.add_argument("--call", type=_positive, default=20_000, help="events per call (%(default)s)")
    parser.add_argument("--repeats", type=_positive, default=7, help="repetitions (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    options = parser.parse_args()
    if options.call > MAX_EVENTS_PER_CALL:
        parser.error(f"--call {options.call} is too large: at most {MAX_EVENTS_PER_CALL} events fit one call")
    record = measure(options.events, options.call, options.repeats)
    if options.json:
        print(json.dumps(record))
        return 0
    print(f"{'form':<22}{'best events/s':>16}{'median':>14}{'bytes/event':>14}")
    for name, form in record["forms"].items():
        best, median = form["best_events_per_s"], form["median_events_per_s"]
        print(f"{name:<22}{best:>16,}{median:>14,}{form['bytes_per_event']:>14}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
