"""What runs in a simulated cluster: an application of one stage, its input, and what must come of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from statemgr.layout import changelog_key, changelog_topic, store_key
from statemgr.testing.kafka import FakeKafka
from statemgr.testing.partition_log import Entry
from statemgr.types import TaskId, TopicPartition
from tests.simulation.application import APP, INPUT, STAGE
from tests.simulation.invariants import LogWatch, TaskHistory
from tests.simulation.rows import Record
from towpath.query.plan import StagePlan
from towpath.stage.processor import MakeProcessor

Records = Sequence[tuple[int, bytes]]
"""Offset and value of each record of an input partition."""


class Case(Protocol):
    """An application; its one table has the id 0."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Topics that it writes, with as many partitions as the input has."""
        ...

    @property
    def make_processor(self) -> MakeProcessor:
        """Makes a replica's processor."""
        ...

    def plan(self, partitions: int) -> StagePlan:
        """The plan of its stage."""
        ...

    def encode(self, number: int, record: Record) -> Sequence[bytes]:
        """The records that the n-th one of the load becomes in Kafka."""
        ...

    def entry(self, number: int, history: TaskHistory) -> bytes:
        """Key of an entry of a task's state that somebody may ask for."""
        ...

    def order(self) -> Order:
        """What looks at outputs as they are committed."""
        ...

    def differences(self, committed: Committed) -> Iterator[str]:
        """What is wrong with outputs and state at the end."""
        ...


class Order(Protocol):
    """Looks at outputs in the order of their commits."""

    def complaint(self, at: TopicPartition, value: bytes) -> str | None:
        """What is wrong with an output, behind those before it; None: nothing."""
        ...


@dataclass(frozen=True)
class Committed:
    """What is in the logs when a run has come to rest."""

    kafka: FakeKafka
    partitions: int
    watch: LogWatch

    def input(self, partition: int) -> Records:
        """The input of a task."""
        return [(entry.offset, entry.value or b"") for entry in self._entries(INPUT, partition)]

    def output(self, topic: str, partition: int) -> list[bytes]:
        """The committed records of a partition of an output."""
        return [entry.value or b"" for entry in self._entries(topic, partition)]

    def state_differences(self, partition: int, wanted: dict[bytes, bytes]) -> Iterator[str]:
        """What is wrong with a task's state (I2), and with what the changelog alone gives (I5).

        Args:
            partition: of the task.
            wanted: changelog key of an entry → its value as it is stored.
        """
        stored = {store_key(key): value for key, value in wanted.items()}
        history = self.watch.of(TaskId(STAGE, partition))
        committed = history.state_at(history.end)
        if committed != stored:
            yield f"partition {partition}: committed state is {committed}, not {stored} (I2)"
        entries = self._entries(changelog_topic(APP, STAGE), partition)
        last = {store_key(entry.key): entry.value for entry in entries if entry.key is not None and len(entry.key) > 2}
        folded = {key: value for key, value in last.items() if value is not None}
        if folded != stored:
            yield f"partition {partition}: the changelog alone gives {folded}, not {stored} (I5)"

    def _entries(self, topic: str, partition: int) -> Sequence[Entry]:
        log = self.kafka.cluster.log(TopicPartition(topic, partition))
        entries, _ = log.read(log.bounds.start, 1_000_000, read_committed=True)
        return entries


def entry_in_store(key: bytes) -> bytes:
    """Store key of an entry."""
    return store_key(changelog_key(0, key))


PREFIX_BYTES = len(entry_in_store(b""))
"""What comes before the key in a store key."""
