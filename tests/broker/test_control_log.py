"""The reader of the control log on a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from statemgr.control.log import ControlReader
from statemgr.control.records import Leader, control_key, encode_control
from statemgr.errors import KafkaUnavailableError, TopicMismatchError, TopicMissingError
from statemgr.kafka.confluent import ConfluentKafka
from statemgr.kafka.ports import TopicSpec
from statemgr.layout import control_topic
from tests.harness.waiting import wait_for

pytestmark = pytest.mark.slow

LIMIT_S = 60.0


class Log:
    """A control log that can be made anew."""

    def __init__(self, app: str, bootstrap: str) -> None:
        self.app = app
        self.kafka = ConfluentKafka(bootstrap)
        self._bootstrap = bootstrap
        self._topic = control_topic(app)

    def make(self, terms: int) -> None:
        """Make it, with the records of so many leaders."""
        self.kafka.admin().create([TopicSpec(self._topic, 1, {"cleanup.policy": "compact"})], 1, LIMIT_S)
        producer = self.kafka.producer(transactional_id=None, name="leaders")
        for term in range(1, terms + 1):
            record = Leader(term, "one")
            producer.produce(self._topic, 0, control_key(record), encode_control(record))
        producer.flush(LIMIT_S)
        producer.close()

    def delete(self) -> None:
        """Delete it, and wait until it is gone."""
        client = AdminClient({"bootstrap.servers": self._bootstrap})
        client.delete_topics([self._topic], operation_timeout=LIMIT_S)[self._topic].result(LIMIT_S)
        admin = self.kafka.admin()
        wait_for("it is gone", lambda: not admin.describe([self._topic], LIMIT_S), LIMIT_S)


@pytest.fixture
def log(broker, unique_name) -> Log:
    return Log(unique_name("shop"), broker.bootstrap)


@pytest.fixture
def reader(log: Log) -> Iterator[ControlReader]:
    with ControlReader(log.kafka, log.app, "reader") as made:
        yield made


def test_a_reader_notices_that_its_log_was_made_anew_though_the_new_one_is_longer(log: Log, reader: ControlReader):
    log.make(terms=2)
    reader.read_to_end()
    log.delete()
    log.make(terms=20)

    def noticed() -> bool:
        try:
            reader.poll(0.1)
        except TopicMismatchError as error:
            return "was made anew" in str(error)
        except (TopicMissingError, KafkaUnavailableError):
            reader.close()  # as whoever follows the log does; the next look is by a new client
        return False

    wait_for("it is noticed", noticed, LIMIT_S, lambda: str(reader.view))
