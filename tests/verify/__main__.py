"""``python -m tests.verify``: NEXMark on the services, with a rescale and a kill, against a batch computation."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from loadgen.session import SessionSettings, start_session, stop_session
from tests.verify.run import EVENTS, QUERIES, compare, run_query
from towpath.broker import LocalBroker

HEADER = (
    f"{'query':12} {'what happened':34} {'rows':>8} {'expected':>8} {'mismatches':>10} {'golden':>7} {'seconds':>8}"
)


def main() -> int:
    """Run the queries one after the other; status 1 if anything differs."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.verify",
        description=__doc__,
        epilog="example: python -m tests.verify --queries q3,q19 --json",
    )
    parser.add_argument("--queries", default=",".join(QUERIES), help=f"some of {', '.join(QUERIES)}")
    parser.add_argument(
        "--json", action="store_true", help="a line of JSON for every query, with samples of what differs"
    )
    arguments = parser.parse_args()
    names = arguments.queries.split(",")
    unknown = sorted(set(names) - set(QUERIES))
    if unknown:
        parser.error(f"no query is called {', '.join(unknown)}; there are {', '.join(QUERIES)}")
    with tempfile.TemporaryDirectory(prefix="towpath-verify-") as directory:
        results = list(_verified(names, Path(directory), as_json=arguments.json))
    return 0 if all(result.ok for result in results) else 1


def _verified(names, directory: Path, *, as_json: bool):
    broker = LocalBroker(directory / "broker")
    broker.start()
    spark = start_session(SessionSettings(app="towpath-verify", work_dir=directory / "spark", shuffle_partitions=2))
    if not as_json:
        print(f"{EVENTS:,} events, each query on processes of its own\n{HEADER}", flush=True)
    try:
        for name in names:
            result = compare(run_query(name, broker, directory / name), broker, spark)
            print(json.dumps(result.to_dict()) if as_json else result.line(), flush=True)
            for sample in () if as_json else result.compared.samples:
                print(f"         {json.dumps(sample)}", flush=True)
            yield result
    finally:
        stop_session(spark)
        broker.stop()


if __name__ == "__main__":
    sys.exit(main())
