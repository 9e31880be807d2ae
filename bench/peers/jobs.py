"""The jobs."""

from __future__ import annotations

from bench.peers.model import Data, Job

EVENT_TIME = ("towpath", "kafka-streams", "flink")
"""Systems that windows and joins are compared with."""

JOBS = (
    Job("q0", "Q0, pass through", "q0", Data.NEXMARK, 4_000_000),
    Job("q1", "Q1, currency conversion", "q1", Data.NEXMARK, 4_000_000),
    Job("q2", "Q2, selection", "q2", Data.NEXMARK, 4_000_000),
    Job("q22", "Q22, URL directories", "q22", Data.NEXMARK, 4_000_000),
    Job("count-bids", "key count, full NEXMark bids", "count", Data.NEXMARK, 4_000_000),
    Job("count-100k", "key count, short bids, 100 k keys", "count", Data.UNIFORM_100K, 6_000_000, keyed=True),
    Job("tumbling", "bids per auction and 10 s of event time", "tumbling", Data.NEXMARK, 4_000_000, among=EVENT_TIME),
    Job("q3", "Q3, local item suggestion (join)", "q3", Data.NEXMARK, 4_000_000, among=EVENT_TIME),
    Job("count-10m", "key count, short bids, 10 M keys", "count", Data.UNIFORM_10M, 15_000_000, keyed=True),
    Job("count-10m-zipf", "key count, short bids, 10 M keys, Zipf 1.0", "count", Data.ZIPF_10M, 15_000_000, keyed=True),
)

SCALING_EVENTS = 4_000_000
KEY_COUNTS = {10_000: "10k", 100_000: "100k", 1_000_000: "1m", 10_000_000: "10m"}
PARTITION_COUNTS = (1, 8, 64, 256)
LAWS = {"zipf": "Zipf 1.0", "uniform": "uniform"}


def keys_job(law: str, keys: str) -> str:
    """Name of the job with keys of this law and number, as in :data:`LAWS` and :data:`KEY_COUNTS`."""
    return f"keys-{law}-{keys}"


def partitions_job(count: int) -> str:
    """Name of the job with so many partitions."""
    return f"partitions-{count}"


SCALING = (
    *(
        Job(
            keys_job(law, name),
            f"one replica, {keys:,} keys, {LAWS[law]}",
            "count",
            Data(f"{law}-{name}"),
            SCALING_EVENTS,
            keyed=True,
            alone=True,
        )
        for law in LAWS
        for keys, name in KEY_COUNTS.items()
    ),
    *(
        Job(
            partitions_job(count),
            f"one replica, {count} partitions, 100 k keys, Zipf 1.0",
            "count",
            Data.ZIPF_100K,
            SCALING_EVENTS,
            keyed=True,
            partitions=count,
            alone=True,
        )
        for count in PARTITION_COUNTS
    ),
)
"""How the cost of an event depends on the number of keys and of partitions: of ours alone, ``make bench-scaling``."""

LATENCY_JOB = Job("latency", "key count, short bids, 100 k keys", "count", Data.UNIFORM_100K, 0, keyed=True, paced=True)
"""One stage, fed at a fixed rate."""

EACH_JOB = "count-100k"
"""Where counts are also measured with one output per event, so that systems are compared that write equally much."""

STATELESS = ("q0", "q1", "q2", "q22")
STATEFUL = ("tumbling", "q3")


def job_named(name: str) -> Job:
    """The job of a name.

    Raises:
        ValueError: there is none.
    """
    jobs = {job.name: job for job in (*JOBS, *SCALING)}
    if name not in jobs:
        raise ValueError(f"there is no job {name!r}; jobs: {', '.join(jobs)}")
    return jobs[name]
