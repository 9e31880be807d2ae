"""Kafka Streams: a small Java program, built by Maven."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from bench.peers.environment import carry_out, write_run
from bench.peers.jobs import EACH_JOB
from bench.peers.model import Command, Guarantee, Job, Run, Say, UnavailableError, Variant
from bench.peers.places import INSTALLED, PROGRAMS
from towpath.jars import JarsError, find_java

NAME = "kafka-streams"
VERSION = "4.4.0"
_BUILT = INSTALLED / "kafka_streams"
_PROJECT = PROGRAMS / "kafka_streams"
_HEAP = "2g"

_PROCESSING = {
    Guarantee.EXACTLY_ONCE: {"processing.guarantee": "exactly_once_v2"},
    Guarantee.AT_LEAST_ONCE: {"processing.guarantee": "at_least_once"},
}
_DEFAULT = {"num.stream.threads": "2"}
"""A thread for each core: the least that its documentation asks for."""

_BEST = {
    **_DEFAULT,
    "topology.optimization": "all",
    "commit.interval.ms": "1000",
    "statestore.cache.max.bytes": str(256 << 20),
    "producer.linger.ms": "100",
    "producer.batch.size": str(256 << 10),
    "producer.compression.type": "lz4",
    "consumer.max.poll.records": "10000",
    "consumer.fetch.min.bytes": str(64 << 10),
    "consumer.max.partition.fetch.bytes": str(4 << 20),
    "jvm.gc": "-XX:+UseParallelGC",
}
"""For throughput: longer commits, larger cache and batches, fewer and larger requests, the collector for throughput."""

_LOW_LATENCY = {
    **_DEFAULT,
    "topology.optimization": "all",
    "commit.interval.ms": "10",
    "statestore.cache.max.bytes": "0",
    "producer.linger.ms": "0",
}
"""Short commits, and nothing waits in the cache for one."""

_EACH = {**_DEFAULT, "statestore.cache.max.bytes": "0"}
"""Without cache each event gives one output and one changelog record."""


class KafkaStreams:
    """See :class:`bench.peers.model.System`."""

    name = NAME
    title = f"Kafka Streams {VERSION} (Java)"
    share = 1.0

    def variants(self, job: Job) -> Sequence[Variant]:
        """At its defaults and at its best; at least once not at its defaults, which show results every 30 s."""
        fastest, settings = ("low-latency", _LOW_LATENCY) if job.paced else ("best", _BEST)
        chosen = [
            ("default", Guarantee.EXACTLY_ONCE, _DEFAULT),
            *((fastest, guarantee, settings) for guarantee in Guarantee),
        ]
        if job.name == EACH_JOB:
            chosen.append(("each", Guarantee.EXACTLY_ONCE, _EACH))
        return [Variant(NAME, name, guarantee, {**_PROCESSING[guarantee], **each}) for name, guarantee, each in chosen]

    def unsupported(self, job: Job) -> str | None:  # noqa: ARG002
        """It can do all of them."""
        return None

    def prepare(self, say: Say) -> None:
        """Build the program."""
        jar, sources = _BUILT / "kafka-streams-peer-1.jar", [*_PROJECT.rglob("*.java"), _PROJECT / "pom.xml"]
        if jar.exists() and jar.stat().st_mtime >= max(path.stat().st_mtime for path in sources):
            return
        maven = shutil.which("mvn")
        if maven is None:
            raise UnavailableError("it is built by Maven, which is not installed: apt-get install maven")
        say(f"{NAME}: building it with Maven into build/peers/kafka_streams")
        pom = str(_PROJECT / "pom.xml")
        carry_out([maven, "-B", "-q", "-f", pom, f"-Dbuild.to={_BUILT}", "package"], NAME)
        jar.touch()

    def group(self, run: Run) -> str | None:
        """The application's id."""
        return run.app

    def command(self, run: Run) -> Command:
        """One JVM."""
        try:
            java = find_java().executable
        except JarsError as error:
            raise UnavailableError(str(error)) from error
        collector = run.variant.settings.get("jvm.gc", "-XX:+UseG1GC")
        flags = [f"-Xmx{_HEAP}", collector, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-XX:-UsePerfData"]
        path = f"{_BUILT}/kafka-streams-peer-1.jar:{_BUILT}/jars/*"
        return Command([str(java), *flags, "-cp", path, "peers.Main", str(write_run(run))])
