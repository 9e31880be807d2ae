"""How much there is to restore, on the in-memory Kafka."""

from __future__ import annotations

from bench.changelog_size import Size, changelog_size
from statemgr.kafka.ports import TopicSpec
from statemgr.testing.kafka import FakeKafka
from statemgr.testing.producer import FakeProducer

TOPIC = "app.count.changelog"


def changelog() -> tuple[FakeKafka, FakeProducer]:
    kafka = FakeKafka()
    kafka.admin().create([TopicSpec(TOPIC, 3, {"cleanup.policy": "compact"})], 1, 1.0)
    producer = kafka.producer(transactional_id="owner", name="owner")
    producer.init_transactions(1.0)
    return kafka, producer


def write(producer: FakeProducer, partition: int, *entries: tuple[bytes, bytes | None], commit: bool = True) -> None:
    producer.begin()
    for key, value in entries:
        producer.produce(TOPIC, partition, key, value)
    if commit:
        producer.commit(1.0)
    else:
        producer.abort(1.0)


def test_committed_records_of_the_named_partitions_count_and_markers_do_not():
    kafka, producer = changelog()
    write(producer, 0, (b"k1", b"1234"), (b"k2", None))
    write(producer, 1, (b"not", b"asked for"))
    write(producer, 0, (b"k3", b"aborted"), commit=False)
    write(producer, 2, (b"key", b"v"))
    ends = {partition: len(kafka.entries(TOPIC, partition)) for partition in (0, 2)}
    assert changelog_size(kafka, TOPIC, ends) == Size(records=3, bytes=12)


def test_what_came_after_the_end_does_not_count():
    kafka, producer = changelog()
    write(producer, 0, (b"k1", b"1"), (b"k2", b"2"))
    write(producer, 0, (b"k3", b"3"))
    assert changelog_size(kafka, TOPIC, {0: 2}) == Size(records=2, bytes=6)
    assert changelog_size(kafka, TOPIC, {0: 1}) == Size(records=1, bytes=3)
