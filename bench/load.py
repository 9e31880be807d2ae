"""How fast the load job is, and how late at 10,000 events a second: against a local broker of its own.

python bench/load.py            prints one JSON object as the last line
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
from dataclasses import replace
from pathlib import Path

from loadgen.load import LoadSettings, run_load
from loadgen.options import SourceOptions
from loadgen.session import SessionSettings, start_session, stop_session
from towpath.broker import LocalBroker

PARTITIONS = 8
FULL_EVENTS = 3_000_000
FULL_ROUNDS = 3
PACED_RATE = 10_000
PACED_SECONDS = 40


def measure() -> dict[str, object]:
    """Three loads at full speed, one paced one; targets beside the figures."""
    with tempfile.TemporaryDirectory(prefix="towpath-bench-") as made, LocalBroker(Path(made) / "broker") as broker:
        spark = start_session(SessionSettings(app="bench-load"))
        try:
            full = LoadSettings(
                broker.bootstrap,
                "full",
                SourceOptions(events=FULL_EVENTS),
                full_speed=True,
                create_partitions=PARTITIONS,
                measure=False,
            )
            rates = [run_load(spark, replace(full, topic=f"full-{n}")).events_per_s for n in range(FULL_ROUNDS)]
            source = SourceOptions(profile=f"constant({PACED_RATE})", events=PACED_RATE * PACED_SECONDS)
            paced = run_load(spark, LoadSettings(broker.bootstrap, "paced", source, create_partitions=PARTITIONS))
        finally:
            stop_session(spark)
    return {
        "full_speed_events_per_s": sorted(rates),
        "full_speed_target": 180_000,
        "paced_rate": PACED_RATE,
        "own_delay_p50_ms": paced.delay_p50_ms,
        "own_delay_p99_ms": paced.delay_p99_ms,
        "own_delay_targets_ms": [20, 50],
        "left_out_s": paced.warmup_s,
        "machine": {"processor": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()[0]},
    }


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print(json.dumps(measure()))
