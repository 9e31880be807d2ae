"""``make chaos``: any number of schedules, one after the other.

python -m tests.chaos --runs 50 --seed 1          a progress line each, and one JSON object as the last line
python -m tests.chaos --runs 5 --program windows   counts per window of event time instead of counts
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from tests.chaos.programs import PROGRAMS
from tests.chaos.run import Outcome, run_schedule
from towpath.broker import LocalBroker

FRESH_BROKER_EVERY = 25
"""Schedules a broker: topics of former ones would slow it down."""


def main() -> int:
    """Run, tell, and give the exit status: 0 if every schedule went well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10, help="how many schedules")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first; each further one is one more")
    parser.add_argument("--program", choices=sorted(PROGRAMS), default="counts", help="what runs; default %(default)s")
    parser.add_argument(
        "--keep", type=Path, default=Path("build/chaos"), help="where failed ones leave logs and stores"
    )
    given = parser.parse_args()
    began_s = time.monotonic()
    outcomes: list[Outcome] = []
    failed: list[int] = []
    for first in range(given.seed, given.seed + given.runs, FRESH_BROKER_EVERY):
        seeds = range(first, min(first + FRESH_BROKER_EVERY, given.seed + given.runs))
        with (
            tempfile.TemporaryDirectory(prefix="towpath-chaos-") as made,
            LocalBroker(Path(made) / "broker", short_lived=True, tied=True) as broker,
        ):
            for seed in seeds:
                done = _run(seed, given.program, broker, Path(made) / f"seed-{seed}", given.keep)
                outcomes += [done] if done is not None else []
                failed += [seed] if done is None else []
    print(json.dumps(_summary(outcomes, failed, time.monotonic() - began_s)), flush=True)
    return 1 if failed else 0


def _run(seed: int, program: str, broker: LocalBroker, work_dir: Path, keep: Path) -> Outcome | None:
    try:
        outcome = run_schedule(seed, broker, f"chaos-{seed}", work_dir, PROGRAMS[program], program)
    except Exception as error:  # noqa: BLE001 - the next schedule is worth running, whatever this one met
        print(f"seed {seed}: FAILED: {str(error).splitlines()[0]}", flush=True)
        traceback.print_exception(error, file=sys.stderr)
        kept = keep / f"seed-{seed}"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(work_dir, kept)
        print(f"logs: {kept}", file=sys.stderr, flush=True)
        return None
    shutil.rmtree(work_dir, ignore_errors=True)
    print(
        f"seed {seed}: ok, {outcome.strategy}, {outcome.outputs} outputs of {outcome.events} events, "
        f"{outcome.strikes} strikes, {outcome.hand_overs} hand-overs (one task: {outcome.most_hand_overs}), "
        f"{outcome.took_s:.0f} s",
        flush=True,
    )
    return outcome


def _summary(outcomes: list[Outcome], failed: list[int], took_s: float) -> dict[str, object]:
    return {
        "schedules": len(outcomes) + len(failed),
        "failed_seeds": failed,
        "strategies": dict(Counter(str(outcome.strategy) for outcome in outcomes)),
        "events": sum(outcome.events for outcome in outcomes),
        "outputs": sum(outcome.outputs for outcome in outcomes),
        "strikes": sum(outcome.strikes for outcome in outcomes),
        "hand_overs": sum(outcome.hand_overs for outcome in outcomes),
        "least_hand_overs_of_a_task": min((outcome.most_hand_overs for outcome in outcomes), default=0),
        "took_s": round(took_s, 1),
        "machine": {"processor": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()[0]},
    }


if __name__ == "__main__":
    sys.exit(main())
