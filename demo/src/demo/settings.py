"""What can be changed about the main job, and what it reports."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

QUERY = "key_count"
MODULE = f"queries.{QUERY}"
STAGE = "count"
INPUT = "nexmark-events"
SINK = "key-count"
WARMUP_TOPIC = "nexmark-warmup"


@dataclass(frozen=True)
class DemoSettings:
    """Settings of a run.

    Attributes:
        rate: events per second.
        seconds: length of the load.
        replicas: replicas of the counter.
        partitions: partitions of the source topic, and so of everything behind it.
        seed: of the generator.
        warmup_s: length of a load into a topic of its own before time zero. Spark's first seconds compile its sink
            and would be measured as the generator's delay; they are not part of the figures.
        work: directory of everything a run leaves behind; emptied first.
    """

    rate: int = 10_000
    seconds: int = 60
    replicas: int = 2
    partitions: int = 4
    seed: int = 42
    warmup_s: int = 6
    work: Path = Path("build/demo")

    @property
    def events(self) -> int:
        """Events that the load sends."""
        return self.rate * self.seconds


@dataclass(frozen=True)
class DemoResult:
    """What the last line on standard output says; milliseconds are visible latency.

    Attributes:
        events: records in the source topic.
        outputs: committed records in the sink topic.
        mismatches: differences of outputs and final state from the batch computation.
        p50_ms: median of visible latency: intended emit time of the oldest event until a reader has the output.
        p99_ms: 99th percentile.
        max_ms: greatest.
        report: the report's path.
        problems: what else went wrong, in words; empty for a good run.
    """

    events: int
    outputs: int
    mismatches: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    report: str
    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether outputs and state are right and nothing was lost."""
        return self.mismatches == 0 and not self.problems

    def to_json(self) -> str:
        """One line; ``problems`` only if there are any."""
        fields = asdict(self)
        if not self.problems:
            del fields["problems"]
        return json.dumps(fields)
