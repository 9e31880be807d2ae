"""Writes the coordinator's records to the control log, each batch in one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from statemgr.control.records import ControlRecord, control_key, encode_control
from statemgr.errors import ProducerLostError
from statemgr.kafka.ports import Kafka, Producer
from statemgr.layout import control_topic, coordinator_id

INIT_TIMEOUT_S = 15.0
"""Becoming the only writer waits for the former one's open transaction: its time-out of 10 s, and half of it again."""

COMMIT_TIMEOUT_S = 10.0
"""A commit takes 10 ms; after the transaction's time-out it can't succeed any more."""


class ControlWriter:
    """The one transactional producer of coordinators; used by one thread.

    Args:
        kafka: the cluster.
        app: the application.
        name: client id.

    Attributes:
        written: offset of the newest record that was committed; -1: none yet.
    """

    def __init__(self, kafka: Kafka, app: str, name: str) -> None:
        self.written = -1
        self._kafka = kafka
        self._topic = control_topic(app)
        self._id = coordinator_id(app)
        self._name = name
        self._producer: Producer | None = None

    def take_over(self) -> None:
        """Fence every other coordinator; from here on only this one can write.

        Raises:
            RetryableKafkaError: not done in time.
            ProducerLostError: refused, or another took over at the same moment.
        """
        self.close()
        producer = self._kafka.producer(transactional_id=self._id, name=self._name)
        try:
            producer.init_transactions(INIT_TIMEOUT_S)
        except BaseException:
            producer.close()
            raise
        self._producer = producer

    def write(self, records: Sequence[ControlRecord]) -> None:
        """Commit records in order.

        Raises:
            ProducerLostError: another coordinator took over, or the outcome is not known; nothing more can be written.
        """
        if self._producer is None:
            raise ProducerLostError("this coordinator does not write the control log now")
        self._producer.begin()
        for record in records:
            self._producer.produce(self._topic, 0, control_key(record), encode_control(record), on_delivery=self._note)
        self._producer.commit(COMMIT_TIMEOUT_S)

    def close(self) -> None:
        """Free the producer."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def _note(self, offset: int) -> None:
        self.written = max(self.written, offset)
