"""Recovery from changelogs of a real broker: short ones, compacted ones, and ones whose beginning was deleted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from statemgr.changelog import Source, restore
from statemgr.changelog.model import RestoredTask
from statemgr.clock import SystemClock
from statemgr.kafka.confluent import ConfluentKafka
from statemgr.kafka.ports import TopicInfo, TopicSpec
from statemgr.layout import PROGRESS_KEY, changelog_key, store_key
from statemgr.progress import InputProgress, Progress, encode_progress
from statemgr.store import MemoryBackend
from statemgr.types import TaskId
from tests.harness.broker import require_java
from tests.harness.topics import read_topic
from tests.harness.waiting import wait_for
from towpath.broker import LocalBroker

pytestmark = [pytest.mark.slow, pytest.mark.broker]

LIMIT_S = 20.0
STAGE = "count"
EAGER = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
HISTORIES: list[list[bytes | None]] = [[], [b"1"], [b"1", b"2"], [b"1", None], [b"1", None, b"3"]]
BASES = (0, 1, 2)


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker whose log cleaner never rests for long."""
    require_java()
    directory: Path = tmp_path_factory.mktemp("eager")
    broker = LocalBroker(directory, settings={"log.cleaner.backoff.ms": "100"}, short_lived=True, tied=True)
    try:
        broker.start()
        yield broker.bootstrap
    finally:
        broker.stop()


class Changelog:
    """A changelog, its one writer, and a replica's stores."""

    def __init__(self, bootstrap: str, name: str, partitions: int) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self._kafka = ConfluentKafka(bootstrap)
        admin = self._kafka.admin()
        admin.create([TopicSpec(name, partitions, EAGER)], 1, LIMIT_S)
        self._topic: TopicInfo = admin.describe([name], LIMIT_S)[name]
        admin.close()
        self.backend = MemoryBackend()
        self._writer = self._kafka.producer(transactional_id=name, name=name)
        self._writer.init_transactions(LIMIT_S)

    def commit(self, partition: int, value: bytes | None, number: int, key: bytes = b"k") -> None:
        """One transaction."""
        progress = Progress(1, {"bids": InputProgress(number, number)})
        self._writer.begin()
        self._writer.produce(self.name, partition, changelog_key(0, key), value)
        self._writer.produce(self.name, partition, PROGRESS_KEY, encode_progress(progress))
        self._writer.commit(LIMIT_S)

    def restore(self, partitions: Sequence[int]) -> dict[int, RestoredTask]:
        """Restore tasks; their stores are left closed."""
        targets = dict.fromkeys((TaskId(STAGE, partition) for partition in partitions), 1)
        found = restore(targets, self.backend, self._kafka, self._topic, name="restore", clock=SystemClock())
        for task in found.values():
            task.store.close()
        return {task.partition: restored for task, restored in found.items()}

    def entries(self, partition: int) -> dict[bytes, bytes]:
        """What a task's store has."""
        store = self.backend.open(TaskId(STAGE, partition), 1)
        try:
            with store.scan() as pairs:
                return dict(pairs)
        finally:
            store.close()

    def delete_before(self, partition: int, offset: int) -> None:
        """What retention does, where the policy allows it."""
        with AdminClient({"bootstrap.servers": self.bootstrap}) as admin:
            for future in admin.delete_records([KafkaPartition(self.name, partition, offset)]).values():
                future.result(LIMIT_S)

    def allow_retention(self) -> None:
        """What an operator should not do."""
        policy = ConfigEntry("cleanup.policy", "compact,delete", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, self.name, incremental_configs=[policy])
        with AdminClient({"bootstrap.servers": self.bootstrap}) as admin:
            for future in admin.incremental_alter_configs([resource]).values():
                future.result(LIMIT_S)

    def close(self) -> None:
        self._writer.close()


@pytest.fixture
def changelog(bootstrap: str, unique_name) -> Iterator[Changelog]:
    made = Changelog(bootstrap, unique_name("changelog"), len(HISTORIES) * len(BASES))
    yield made
    made.close()


def test_every_short_changelog_is_recovered_from_every_base(changelog: Changelog) -> None:
    table = list(enumerate((history, base) for history in HISTORIES for base in BASES))
    for base in BASES:
        of_base = [(partition, history) for partition, (history, its) in table if its == base]
        for partition, history in of_base:
            for number, value in enumerate(history[:base]):
                changelog.commit(partition, value, number + 1)
        if base:
            changelog.restore([partition for partition, _ in of_base])
        for partition, history in of_base:
            for number, value in enumerate(history[base:], start=base):
                changelog.commit(partition, value, number + 1)
    for partition, restored in changelog.restore(range(len(table))).items():
        history, base = table[partition][1]
        value = history[-1] if history else None
        expected = {} if value is None else {store_key(changelog_key(0, b"k")): value}
        assert changelog.entries(partition) == expected, (history, base)
        progress = restored.progress
        assert (progress.inputs["bids"].high if progress else 0) == len(history)
        assert restored.source is (Source.TAIL if base else Source.FULL if history else Source.FRESH)


def test_a_changelog_that_the_broker_has_compacted_by_time_is_recovered_to_its_end(changelog: Changelog) -> None:
    written = 0

    def compacted() -> bool:
        nonlocal written
        written += 1
        changelog.commit(0, b"%d" % written, written, b"k%d" % (written % 3))
        return (
            len([each for each in read_topic(changelog.bootstrap, changelog.name) if each.partition() == 0]) < written
        )

    wait_for("the broker compacts", compacted, LIMIT_S, lambda: f"{written} transactions")
    restored = changelog.restore([0])[0]
    assert restored.progress == Progress(1, {"bids": InputProgress(written, written)})
    last = {b"k%d" % (number % 3): b"%d" % number for number in range(1, written + 1)}
    assert changelog.entries(0) == {store_key(changelog_key(0, key)): value for key, value in last.items()}


def test_a_base_before_the_log_s_new_start_is_never_topped_up_over_the_hole(changelog: Changelog) -> None:
    """Under the policy that every stage insists on the broker deletes nothing; if somebody changes it meanwhile, the
    store is made anew."""
    changelog.commit(1, b"old", 1, b"deleted meanwhile")
    assert changelog.restore([1])[1].source is Source.FULL
    for number in range(2, 8):
        changelog.commit(1, b"%d" % number, number)
    with pytest.raises(KafkaException, match="POLICY_VIOLATION"):
        changelog.delete_before(1, 9)
    changelog.allow_retention()
    changelog.delete_before(1, 9)
    restored = changelog.restore([1])[1]
    assert restored.source is Source.FULL
    assert changelog.entries(1) == {store_key(changelog_key(0, b"k")): b"7"}
    assert restored.progress == Progress(1, {"bids": InputProgress(7, 7)})
