"""How fast Kafka Streams restores a store, beside our ``replay``: a real application on the same broker.

Its restore listener says when each partition began and was done, so that the start of the JVM, the group's, and the
opening of the stores are left out. Ours has the opening of the stores and the taking up of the tasks in it; so a second
ratio, ``ratio_until_running``, is against theirs from its start in a JVM that runs until its tasks run.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.changelog_size import changelog_size
from bench.peers.model import RunFailedError, Say, UnavailableError
from bench.peers.systems.kafka_streams import VERSION
from bench.restore_figures import STARTED_TO_RUNNING, Restore, ratio, told_by_listener
from bench.streams_application import EXACTLY_ONCE, StreamsApplication
from statemgr.kafka.confluent import ConfluentKafka

SETTINGS: Mapping[str, Mapping[str, str]] = {
    "default": EXACTLY_ONCE,
    "for_restore": {
        **EXACTLY_ONCE,
        "num.stream.threads": str(os.cpu_count()),
        "rocksdb.config.setter": "handover.LargeBuffers",
        "restore.consumer.max.poll.records": "10000",
        "restore.consumer.max.partition.fetch.bytes": str(4 << 20),
    },
}
"""``for_restore``: memtables of 64 MiB and compaction from ten files on, which its documentation advises where restore
time matters ("Memory Management"); a thread for each core; and larger polls and fetches of the restore consumer."""


def streams_restore(bootstrap: str, work_dir: Path, say: Say) -> StreamsRestore | None:
    """What compares; None, and a line that says why, where Kafka Streams can't be had."""
    try:
        return StreamsRestore(bootstrap, StreamsApplication(bootstrap, work_dir, say), say)
    except UnavailableError as error:
        say(f"Kafka Streams is left out: {error}")
        return None


class StreamsRestore:
    """Restores of one application, and ours beside them. Its failure ends the comparison, not the benchmark.

    Args:
        bootstrap: the broker.
        application: theirs.
        say: is told what goes on.

    Attributes:
        failure: why there is no more to compare; None while all is well.
    """

    def __init__(self, bootstrap: str, application: StreamsApplication, say: Say) -> None:
        self.failure: str | None = None
        self._kafka = ConfluentKafka(bootstrap)
        self._application = application
        self._say = say
        self._ours: dict[str, tuple[str, Restore | None]] = {}
        self._theirs: dict[str, dict[str, dict[str, Any]]] = {}

    def fill(self, keys: int, partitions: int) -> None:
        """Have theirs write its changelog, of half of that."""
        self._say(f"Kafka Streams: writing the changelog of half of {keys:,} keys")
        with self._noting_failure():
            self._application.fill(keys, partitions)

    def compare(self, condition: str, topic: str, ours: Restore | None) -> None:
        """Note our restore from that changelog, and see theirs, under the conditions that there are now."""
        self._ours[condition] = (topic, ours)
        self._theirs[condition] = {}
        if self.failure is None:
            with self._noting_failure():
                self._restore(condition)

    def figures(self) -> dict[str, Any]:
        """Both sides, by condition."""
        found: dict[str, Any] = {"version": VERSION, "settings": SETTINGS, "failure": self.failure}
        for condition, (topic, restore) in self._ours.items():
            size = changelog_size(self._kafka, topic, restore.ends) if restore is not None else None
            ours = restore.figures(size) if restore is not None and size is not None else None
            theirs = self._theirs[condition]
            found[condition] = {
                "replay": ours,
                "kafka_streams": theirs,
                "ratio": ratio(ours, theirs.values()),
                "ratio_until_running": ratio(ours, theirs.values(), STARTED_TO_RUNNING),
            }
            self._say(_told(condition, found[condition]))
        return found

    def _restore(self, condition: str) -> None:
        application = self._application
        for name, settings in SETTINGS.items():
            self._say(f"Kafka Streams: restoring {_words(condition)}, settings {_words(name)}")
            restore = told_by_listener(application.restore(settings), application.ends)
            self._theirs[condition][name] = restore.figures(application.size)

    @contextlib.contextmanager
    def _noting_failure(self) -> Iterator[None]:
        try:
            yield
        except RunFailedError as error:
            self.failure = str(error)
            self._say(f"Kafka Streams is left out: {error}")


def _told(condition: str, row: Mapping[str, Any]) -> str:
    theirs = {f"Kafka Streams, {_words(name)}": each for name, each in row["kafka_streams"].items()}
    sides = {"replay": row["replay"], **theirs}
    return "\n".join(
        [
            f"restore of half of the partitions {_words(condition)}:",
            *(f"  {name:<30} {_rate(each)}" for name, each in sides.items() if each is not None),
            f"  {'ours over their fastest':<30} {row['ratio']}; until running {row['ratio_until_running']}",
        ]
    )


def _rate(figures: Mapping[str, Any]) -> str:
    return f"{figures['records']:,} records in {figures['seconds']:.2f} s: {figures['records_per_s']:,}/s"


def _words(name: str) -> str:
    return name.replace("_", " ")
