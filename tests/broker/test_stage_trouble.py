"""What goes wrong around a running stage: the broker, bad records, a twin, damaged stores."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from statemgr.kafka.confluent import ConfluentKafka
from statemgr.types import TopicPartition
from tests.harness.deployment import Deployment, deployed
from tests.harness.load import Load, create_topic
from tests.harness.processes import ReplicaProcess
from tests.harness.reference import bids_of, compare_each_count, compare_state, final_counts
from tests.harness.topics import read_topic
from tests.harness.waiting import wait_for
from towpath.broker import LocalBroker

pytestmark = pytest.mark.slow

QUERY = "tests.harness.bid_counts"
PARTITIONS = 4
PAUSE_S = 15.0
"""Longer than the transaction time-out of 10 s, so every open transaction is lost."""

PROGRESS_LIMIT_S = 30.0
"""From the moment at which the broker is back until every stage makes progress."""


def count_bids(broker: LocalBroker, work_dir: Path, app: str, **more: object) -> Deployment:
    return Deployment(QUERY, broker.bootstrap, work_dir, settings={"app": app}, source_partitions=PARTITIONS, **more)  # type: ignore[arg-type]


def require_reference(deployment: Deployment, load: Load) -> None:
    """Drain, stop, compare outputs and state."""
    deployment.drain()
    deployment.stop()
    bids = bids_of(load.values())
    compare_each_count(deployment.outputs(), bids)
    compare_state(deployment.state("count", "count"), final_counts(bids))


@pytest.mark.parametrize("trouble", ["restarted", "killed", "paused"])
def test_stages_survive_a_broker_that_is(trouble, own_broker, tmp_path):
    deployment = count_bids(own_broker, tmp_path / "run", trouble)
    with deployed(deployment), Load(own_broker.bootstrap, deployment.source, partitions=PARTITIONS) as load:
        deployment.await_running()
        await_outputs(deployment, 1)
        pids = {name: process.pid for name, process in deployment.replicas.items()}
        if trouble == "paused":
            own_broker.pause()
            time.sleep(PAUSE_S)  # the length of the pause is the trouble itself
            own_broker.resume()
        elif trouble == "killed":
            own_broker.kill()
            own_broker.start()
        else:
            own_broker.stop()
            own_broker.start()
        for process in deployment.replicas.values():
            process.await_running(PROGRESS_LIMIT_S)
        load.stop()
        require_reference(deployment, load)
        assert own_broker.bootstrap == deployment.bootstrap
        assert pids == {name: process.pid for name, process in deployment.replicas.items()}


def test_poison_records_go_to_the_dead_letter_topic_once_and_stop_nothing(broker, unique_name, tmp_path):
    app = unique_name("poison")
    deployment = count_bids(broker, tmp_path / "run", app)
    with deployed(deployment), Load(broker.bootstrap, deployment.source, partitions=PARTITIONS, limit=6000) as load:
        poison = send_poison(broker.bootstrap, deployment.source)
        load.finish()
        deployment.await_running()
        require_reference(deployment, load)
    sent = {
        (record.partition(), record.offset()): record.value()
        for record in read_topic(broker.bootstrap, deployment.source)
    }
    letters: Counter[tuple[int, int]] = Counter()
    for letter in read_topic(broker.bootstrap, f"{app}.dead-letter"):
        headers = {name: value.decode() for name, value in letter.headers() or []}
        assert (headers["topic"], headers["stage"]) == (deployment.source, "source")
        assert headers["reason"], headers
        origin = int(headers["partition"]), int(headers["offset"])
        letters[origin] += 1
        assert sent[origin] in POISON
        assert (letter.value() or b"") == (sent[origin] or b"")[: len(letter.value() or b"")]
    assert set(letters.values()) == {1}
    assert len(letters) == poison


def test_a_twin_of_the_same_name_takes_over_and_the_first_writes_nothing_any_more(broker, unique_name, tmp_path):
    app = unique_name("twin")
    deployment = count_bids(broker, tmp_path / "run", app)
    options = ["--set", f"app={app}"]
    twin = ReplicaProcess(QUERY, "count", tmp_path / "run", broker.bootstrap, options=options, label="-twin")
    with deployed(deployment), Load(broker.bootstrap, deployment.source, partitions=PARTITIONS) as load:
        deployment.await_running()
        await_outputs(deployment, 1)
        first = deployment["count-0"]
        first.pause()
        try:
            twin.start()
            twin.await_running()
            first.resume()
            first.await_log("ownership lost")
            twin.kill()
        finally:
            twin.close()
        load.stop()
        first.await_running()
        require_reference(deployment, load)


@pytest.mark.parametrize("file", ["MANIFEST", "sst"])
def test_a_damaged_store_is_rebuilt_with_one_warning(broker, unique_name, tmp_path, file):
    app = unique_name("damaged")
    deployment = count_bids(broker, tmp_path / "run", app)
    with deployed(deployment), Load(broker.bootstrap, deployment.source, partitions=PARTITIONS) as load:
        deployment.await_running()
        await_outputs(deployment, 1000)
        process = deployment["count-0"]
        process.stop()
        process.start()  # a second start turns the log of the first into a table file
        process.await_running()
        process.stop()
        damaged = damage(process.state_dir / "count" / "0@1", file)
        process.start()
        process.await_running()
        warnings = [line for line in process.log().splitlines() if "is damaged" in line]
        assert len(warnings) == 1, f"{damaged}\n{process.describe()}"
        assert "0@1" in warnings[0]
        assert "bytes" in warnings[0]
        load.stop()
        require_reference(deployment, load)


def await_outputs(deployment: Deployment, number: int) -> None:
    """Wait until the sink holds some committed records."""
    wait_for(
        f"{number} outputs",
        lambda: len(deployment.outputs()) >= number,
        PROGRESS_LIMIT_S,
        deployment.describe,
    )


def damage(directory: Path, kind: str) -> Path:
    """Flip bytes in the middle of a store's files of a kind."""
    files = sorted(directory.glob("MANIFEST*" if kind == "MANIFEST" else "*.sst"))
    assert files, f"no {kind} among {sorted(path.name for path in directory.iterdir())}"
    for path in files:
        content = bytearray(path.read_bytes())
        for position in range(len(content) // 4, len(content), max(1, len(content) // 16)):
            content[position] ^= 0xFF
        path.write_bytes(bytes(content))
    return files[-1]


POISON: list[bytes | None] = [
    None,
    b"",
    b"{",
    b"no JSON at all",
    b"[1, 2]",
    b'{"type":"bid","auction":"seven","sched_ms":1}',
    b'{"type":7}',
    b'{"type":"bid","auction":1' + b" " * 900_000,
    b"\xff\xfe\x00",
]
POISON_EACH = 7
"""63 of about 6000 records, one percent."""


def send_poison(bootstrap: str, topic: str) -> int:
    """Spread bad records over the partitions; gives their number."""
    values = POISON * POISON_EACH
    random.Random(1).shuffle(values)
    producer = ConfluentKafka(bootstrap).producer(transactional_id=None, name="tests-poison")
    for number, value in enumerate(values):
        producer.produce(topic, number % PARTITIONS, None, value)
    producer.flush(30)
    producer.close()
    return len(values)


def test_committed_offsets_are_told_after_every_restart_of_the_broker(own_broker):
    kafka = ConfluentKafka(own_broker.bootstrap)
    create_topic(own_broker.bootstrap, "told", 1)
    at = TopicPartition("told", 0)
    consumer = kafka.consumer(name="asking")
    for offset in (1, 2, 3):
        producer = kafka.producer(transactional_id="told", name="telling")
        producer.init_transactions(PROGRESS_LIMIT_S)
        producer.begin()
        producer.send_offsets({at: (offset, "")}, "group", PROGRESS_LIMIT_S)
        producer.commit(PROGRESS_LIMIT_S)
        assert consumer.committed("group", [at], PROGRESS_LIMIT_S)[at].offset == offset
        own_broker.stop()
        own_broker.start()
        producer.close()
        assert consumer.committed("group", [at], PROGRESS_LIMIT_S)[at].offset == offset
    consumer.close()
