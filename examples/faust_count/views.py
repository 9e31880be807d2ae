"""Page views for the example: ``python -m examples.faust_count.views --rate 500 --users 100000``."""

from __future__ import annotations

import argparse
import itertools
import os
import random
from collections.abc import Iterator

from examples.sending import Sent, send
from statemgr.partitioner import partition_of

PARTITIONS = 8


def views(users: int, seed: int = 1) -> Iterator[Sent]:
    """Views of random users, each in its user's partition, without end."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    while True:
        user = str(chance.randrange(users))
        yield partition_of(user.encode(), PARTITIONS), {"user": user, "page": f"/{chance.randrange(100)}"}


def main() -> None:
    """Send as many as asked for."""
    parser = argparse.ArgumentParser(prog="python -m examples.faust_count.views", description=__doc__)
    parser.add_argument("--bootstrap", default=os.environ.get("BOOTSTRAP", "127.0.0.1:9092"))
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=500.0, help="views a second")
    parser.add_argument("--views", type=int, default=600_000, help="how many")
    given = parser.parse_args()
    chosen = itertools.islice(views(given.users), given.views)
    send(given.bootstrap, "page-views", chosen, partitions=PARTITIONS, rate=given.rate)


if __name__ == "__main__":
    main()
