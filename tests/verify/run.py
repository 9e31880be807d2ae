"""One query on real processes over a fixed input; its last stage grows, loses a replica to kill -9, and shrinks."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadgen.oracle import VerifyResult, verify_files, verify_topics
from statemgr.kafka.confluent import ConfluentKafka
from tests.harness.cluster import Cluster, clustered, hand_overs
from tests.harness.deployment import read_outputs
from tests.harness.load import Load
from tests.harness.waiting import wait_for
from towpath.broker import LocalBroker
from towpath.operators.parquet_files import MARKER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = 60_000
"""The first minute of the event model at 1,000 events a second."""

SEED = 42
RATE = 3_000
"""Events a second as they are sent, so that rescale and kill come amid them."""

PARTITIONS = 4
CHANGE_LIMIT_S = 60.0

QUIET_S = 3.0
"""Marks take 0.1 s from stage to stage, and a commit as long."""

QUERIES = (*(f"q{number}" for number in range(23)), "q4_on_close", "q9_on_close")
"""Those with a second mode stand twice."""

WINDOWED = ("q4_on_close", "q5", "q6", "q7", "q8", "q9_on_close", "q10", "q11", "q12")
"""Queries whose last results come when event time has come to the end."""

TO_FILES: Mapping[str, Mapping[str, Any]] = {"q10": {"roll_rows": 1_000}}
"""Queries that write files, and settings by which some are written amid everything; their first stage writes them."""

BY_THE_CLOCK = ("q12",)
"""Queries for which the end is a matter of time."""

WINDOW_S = 10.0
"""Their windows."""

END = b'{"type":"end","date_time":2000000000000}'
"""Nothing that happened, later than all windows."""

GOLDEN_ROWS = {
    "q0": 55_200,
    "q1": 55_200,
    "q2": 227,
    "q3": 573,
    "q4": 5,
    "q5": 35,
    "q7": 6,
    "q8": 217,
    "q4_on_close": 5,
    "q6": 3_352,
    "q9_on_close": 3_352,
    "q9": 3_354,
    "q10": 55_200,
    "q11": 1_407,
    "q13": 55_200,
    "q14": 15_619,
    "q15": 1,
    "q16": 9_347,
    "q17": 3_597,
    "q18": 16_548,
    "q19": 26_423,
    "q20": 15_834,
    "q21": 52_387,
    "q22": 55_200,
}
"""Rows, or keys of an upsert sink, of this input, as SQLite has computed them over the same events."""


@dataclass(frozen=True)
class Ran:
    """A query that has been through it.

    Attributes:
        name: of the query.
        source: topic of the input.
        sink: topic of the output, or that tells of files.
        files: directory of the output, where it is no topic.
        hand_overs: changes of owner of the stage's tasks.
        took_s: in all.
    """

    name: str
    source: str
    sink: str
    hand_overs: int
    took_s: float
    files: Path | None = None


@dataclass(frozen=True)
class Verified:
    """What the comparison of a query's output has found; ``golden``: rows that it must have by another computation."""

    ran: Ran
    compared: VerifyResult
    golden: int | None

    @property
    def ok(self) -> bool:
        """Whether all agree, and state has moved."""
        return self.compared.ok and self.ran.hand_overs > 0 and self.golden in (None, self.compared.expected)

    def line(self) -> str:
        """For people."""
        golden = "-" if self.golden is None else "same" if self.golden == self.compared.expected else "DIFFERS"
        happened = f"1 → 2 → 1, kill -9, {self.ran.hand_overs} hand-overs"
        return (
            f"{self.ran.name:12} {happened:34} {self.compared.actual:8} {self.compared.expected:8} "
            f"{self.compared.mismatches:10} {golden:>7} {self.ran.took_s:8.1f}"
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        ran = {"query": self.ran.name, "hand_overs": self.ran.hand_overs, "took_s": round(self.ran.took_s, 1)}
        return ran | self.compared.to_dict() | {"golden": self.golden, "ok": self.ok}


def run_query(name: str, broker: LocalBroker, work_dir: Path) -> Ran:
    """Run a query from beginning to end.

    Raises:
        AssertionError: something did not happen in time, or a replica that was asked to leave did not end well.
    """
    began_s = time.monotonic()
    work_dir.mkdir(parents=True)
    module, _, mode = name.partition("_")
    settings = {"topic": f"{name}-events", "partitions": PARTITIONS} | ({"mode": mode} if mode else {})
    files = work_dir / "files" if name in TO_FILES else None
    if files is not None:
        settings |= {"directory": str(files), **TO_FILES[name]}
    cluster = Cluster(f"queries.{module}", broker.bootstrap, work_dir, settings=settings, source_partitions=PARTITIONS)
    stage = cluster.plan.names[0 if files else -1]
    with clustered(cluster):
        cluster.await_settled()
        with Load(broker.bootstrap, cluster.source, partitions=PARTITIONS, rate=RATE, seed=SEED, limit=EVENTS) as load:
            _await_sent(load, 0.1)
            cluster.scale(stage, 2)
            _await_members(cluster, stage)
            _await_sent(load, 0.4)
            _kill_and_revive(cluster, stage)
            _await_sent(load, 0.7)
            cluster.await_settled()
            cluster.scale(stage, 1)
            load.finish()
        if name in BY_THE_CLOCK:
            time.sleep(WINDOW_S)
        if name in WINDOWED:
            _end(broker, cluster.source)
        cluster.await_settled()
        cluster.drain()
        if name in WINDOWED:
            _await_quiet(broker, cluster.plan.stages[-1].outputs[0].topic)
        cluster.require_clean_leaves()
        moves = sum(hand_overs(cluster.control()[1], stage).values())
        cluster.freeze()
    sink = cluster.plan.stages[-1].outputs[0].topic
    if files is not None:
        _require_announced(files, read_outputs(broker.bootstrap, name), read_outputs(broker.bootstrap, sink))
    return Ran(name, cluster.source, sink, moves, time.monotonic() - began_s, files)


def compare(ran: Ran, broker: LocalBroker, spark: SparkSession) -> Verified:
    """Compare what a query has put out with Spark SQL over its input."""
    if ran.files is None:
        (compared,) = verify_topics(spark, broker.bootstrap, ran.name, ran.source, ran.sink)
    else:
        (compared,) = verify_files(spark, broker.bootstrap, ran.name, ran.source, ran.files)
    return Verified(ran, compared, GOLDEN_ROWS.get(ran.name))


def _require_announced(
    directory: Path, announced: Sequence[Mapping[str, Any]], complete: Sequence[Mapping[str, Any]]
) -> None:
    """Each file is announced once, each directory marked and announced as complete, and nothing else is there."""
    there = sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())
    files = sorted(item["file"] for item in announced)
    places = sorted({str(Path(file).parent) for file in files})
    assert there == sorted([*files, *(f"{place}/{MARKER}" for place in places)])
    assert (len(complete), sum(item["files"] for item in complete)) == (len(places), len(files))


def _end(broker: LocalBroker, topic: str) -> None:
    """Let event time come to the end in every partition."""
    with contextlib.closing(ConfluentKafka(broker.bootstrap).producer(transactional_id=None, name="end")) as producer:
        for partition in range(PARTITIONS):
            producer.produce(topic, partition, None, END)
        producer.flush(CHANGE_LIMIT_S)


def _await_quiet(broker: LocalBroker, topic: str) -> None:
    """Wait for the last windows: watermarks go from stage to stage a moment after the rows."""
    counts = [-1]

    def quiet() -> bool:
        counts.append(len(read_outputs(broker.bootstrap, topic)))
        time.sleep(QUIET_S)
        return counts[-1] == counts[-2] > 0

    wait_for(f"nothing more comes in {topic}", quiet, CHANGE_LIMIT_S)


def _await_sent(load: Load, share: float) -> None:
    wait_for(f"{share:.0%} of the events are sent", lambda: load.sent >= share * EVENTS, CHANGE_LIMIT_S)


def _await_members(cluster: Cluster, stage: str) -> None:
    wait_for("the newcomer is a member", lambda: cluster.all_are_members(stage), CHANGE_LIMIT_S, cluster.describe)


def _kill_and_revive(cluster: Cluster, stage: str) -> None:
    """As a supervisor does: the death is reported, and the process started again."""
    victim = cluster.working(stage)[0]
    victim.stage.kill()
    victim.report_died()
    victim.revive()
