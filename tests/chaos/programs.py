"""What schedules are carried out on: queries, and how their results are judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.harness.cluster import Cluster
from tests.harness.load import Load
from tests.harness.reference import Bid, compare, compare_each_count, compare_state, final_counts
from tests.harness.waiting import wait_for
from tests.harness.windowed_counts import WINDOW_MS

STAGE = "count"
PARTITIONS = 8

CLOSE_LIMIT_S = 30.0
"""From the last record's commit until all windows are closed: a watermark goes on every 100 ms, and rests while state
is on its way."""

_LAST_AUCTION = -1
_LATER_MS = 3_600_000

Outputs = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Program:
    """A query with a stage :data:`STAGE` that counts bids.

    Attributes:
        query: module; its ``build`` takes ``app`` and ``partitions``.
        settings: further arguments of it.
        close: what is sent once the load has stopped, and waited for.
        judge: compares outputs and state with the bids; raises if they differ.
    """

    query: str
    close: Callable[[Cluster, Load, Sequence[Bid]], None]
    judge: Callable[[Cluster, Outputs, Sequence[Bid]], None]
    settings: Mapping[str, Any] = field(default_factory=dict)


def _nothing(cluster: Cluster, load: Load, bids: Sequence[Bid]) -> None:
    """Every count is there when its bid is worked off."""


def _judge_counts(cluster: Cluster, outputs: Outputs, bids: Sequence[Bid]) -> None:
    compare_each_count(outputs, bids)
    compare_state(cluster.state(STAGE, "count"), final_counts(bids))


def _close_windows(cluster: Cluster, load: Load, bids: Sequence[Bid]) -> None:
    """A bid of a much later time in every partition, after which all windows before it close."""
    last = {"type": "bid", "auction": _LAST_AUCTION, "date_time": _last_ms(bids), "sched_ms": bids[-1].sched_ms}
    load.put_everywhere(msgspec.json.encode(last))
    expected = len(_windows(bids))

    def look() -> bool:
        cluster.tend()
        return len(cluster.outputs()) >= expected

    wait_for(f"{expected} windows are closed", look, CLOSE_LIMIT_S, lambda: f"{len(cluster.outputs())} are")


def _judge_windows(cluster: Cluster, outputs: Outputs, bids: Sequence[Bid]) -> None:
    found = Counter((row["auction"], row["window_start"], row["count"]) for row in outputs)
    compare("auction, window and count", found, Counter((*key, count) for key, count in _windows(bids).items()))
    open_end_ms = (_last_ms(bids) // WINDOW_MS + 1) * WINDOW_MS
    left = Counter(tuple(msgspec.json.decode(key)) for key in cluster.state(STAGE, "aggregate"))
    compare("window in state", left, Counter([(_LAST_AUCTION, open_end_ms)]))


def _windows(bids: Sequence[Bid]) -> Counter[tuple[int, int]]:
    """Auction and start of the window → bids."""
    return Counter((bid.auction, bid.date_time // WINDOW_MS * WINDOW_MS) for bid in bids)


def _last_ms(bids: Sequence[Bid]) -> int:
    return max(bid.date_time for bid in bids) + _LATER_MS


COUNTS = Program("tests.harness.bid_counts", _nothing, _judge_counts, {"emit": "each"})
"""One output per bid, with the count of its auction."""

WINDOWS = Program("tests.harness.windowed_counts", _close_windows, _judge_windows)
"""One output per auction and half second of event time; what is closed leaves the state."""

PROGRAMS = {"counts": COUNTS, "windows": WINDOWS}
