"""A Kafka Streams application that counts per key as :mod:`bench.padded_count` does, as a process that ends by itself.

Its changelog is written by its own topology, from half of the keys in half of the partitions: what a second replica
takes over. Started without its state directory, it restores that.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import towpath.broker
from bench import padded_count
from bench.changelog_size import Size, changelog_size
from bench.peers.model import RunFailedError, Say, UnavailableError
from bench.peers.places import INSTALLED
from bench.peers.systems.kafka_streams import KafkaStreams
from statemgr.kafka.confluent import ConfluentKafka
from statemgr.partitioner import partitions_of
from statemgr.types import TopicPartition
from tests.harness.load import create_topic
from towpath.jars import JarsError, find_java

APP = "handover-streams"
STORE = "padded"
SOURCE, SINK, CHANGELOG = f"{APP}-events", f"{APP}-counts", f"{APP}-{STORE}-changelog"
EXACTLY_ONCE = {"processing.guarantee": "exactly_once_v2"}

_HEAP = "2g"
_LIMIT_S = 300.0
"""For a million keys through its topology on a busy machine; a restore takes seconds."""

_QUERY_S = 10.0
_FLUSH_S = 60.0
_BATCH = 50_000
_LAST_CHARACTERS = 500


class StreamsApplication:
    """Starts it, and waits for its end.

    Args:
        bootstrap: the broker.
        work_dir: for state and descriptions of runs.
        say: is told what goes on.

    Attributes:
        ends: partition → end of its changelog, once it is filled.
        size: of that changelog.

    Raises:
        UnavailableError: there is no Maven, no Java, or no jars.
    """

    def __init__(self, bootstrap: str, work_dir: Path, say: Say) -> None:
        try:
            self._java = str(find_java().executable)
        except JarsError as error:
            raise UnavailableError(str(error)) from error
        KafkaStreams().prepare(say)
        self.ends: dict[int, int] = {}
        self.size = Size(0, 0)
        self._kafka = ConfluentKafka(bootstrap)
        self._bootstrap = bootstrap
        self._work_dir = work_dir
        self._runs = 0

    def fill(self, keys: int, partitions: int) -> None:
        """Have it count every key of the first half of the partitions once.

        Raises:
            RunFailedError: its changelog is not what it should be.
        """
        half = range(partitions // 2)
        for topic in (SOURCE, SINK):
            create_topic(self._bootstrap, topic, len(half))
        sent = self._send(keys, partitions, half)
        self._run(EXACTLY_ONCE, inputs=sent, restores=0)
        self.ends = self._changelog_ends(half)
        self.size = changelog_size(self._kafka, CHANGELOG, self.ends)
        if self.size.records != sent:
            raise RunFailedError(f"the changelog of {sent} keys has {self.size.records} records")

    def restore(self, settings: Mapping[str, str]) -> dict[str, Any]:
        """Have it restore its changelog; gives what :file:`Restore.java` says of that.

        Raises:
            RunFailedError: it did not get there, or restored something else.
        """
        answer = self._run(settings, inputs=0, restores=len(self.ends))
        records = sum(part["records"] for part in answer["partitions"])
        if records != self.size.records:
            raise RunFailedError(f"it restored {records} records of {self.size.records}")
        return answer

    def _send(self, keys: int, partitions: int, chosen: range) -> int:
        texts = [str(key).encode() for key in range(keys)]
        owners = partitions_of(texts, partitions)
        sent = 0
        with contextlib.closing(self._kafka.producer(transactional_id=None, name="bench-streams")) as producer:
            for number in chosen:
                mine = [texts[row] for row in (owners == number).nonzero()[0].tolist()]
                for start in range(0, len(mine), _BATCH):
                    batch = mine[start : start + _BATCH]
                    producer.produce_batch(SOURCE, number, batch, [b"1"] * len(batch))
                sent += len(mine)
            producer.flush(_FLUSH_S)
        return sent

    def _run(self, settings: Mapping[str, str], *, inputs: int, restores: int) -> dict[str, Any]:
        """The application, without a state directory, until it has ended; gives what it said last."""
        self._runs += 1
        work_dir = self._work_dir / f"run-{self._runs}"
        work_dir.mkdir(parents=True)
        described = work_dir / "run.json"
        run = {
            "app": APP,
            "bootstrap": self._bootstrap,
            "source": SOURCE,
            "sink": SINK,
            "store": STORE,
            "value_bytes": padded_count.VALUE_BYTES,
            "state_dir": str(work_dir / "state"),
            "settings": settings,
            "inputs": inputs,
            "restores": restores,
        }
        described.write_text(json.dumps(run, indent=1), encoding="utf-8")
        command = [*_tied(), self._java, *_java_arguments(), str(described)]
        try:
            done = subprocess.run(command, cwd=work_dir, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise RunFailedError(f"it did not end within {_LIMIT_S:g} s") from error
        if done.returncode:
            raise RunFailedError(f"it ended with status {done.returncode}: {done.stderr[-_LAST_CHARACTERS:].strip()}")
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer

    def _changelog_ends(self, partitions: range) -> dict[int, int]:
        with contextlib.closing(self._kafka.consumer(name="bench-ends")) as consumer:
            return {at: consumer.bounds(TopicPartition(CHANGELOG, at), _QUERY_S).end for at in partitions}


def _java_arguments() -> list[str]:
    built = INSTALLED / "kafka_streams"
    flags = [f"-Xmx{_HEAP}", "-XX:+UseG1GC", "-XX:-UsePerfData", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    return [*flags, "-cp", f"{built}/*:{built}/jars/*", "handover.Restore"]


def _tied() -> list[str]:
    """Ends the JVM with this process, however that ends."""
    if sys.platform != "linux":
        return []
    program = Path(towpath.broker.__file__).with_name("tied.py")
    return [sys.executable, "-I", "-S", str(program), str(os.getpid())]
