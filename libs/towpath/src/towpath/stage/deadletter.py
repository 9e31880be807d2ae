"""The dead-letter topic: records that can't be processed, with the reason; nothing is lost."""

from __future__ import annotations

import structlog

from statemgr.kafka.ports import Message
from statemgr.layout import dead_letter_topic
from towpath.query.plan import StagePlan
from towpath.stage.metrics import StageMetrics
from towpath.stage.transaction import Transactor

log = structlog.get_logger()

VALUE_BYTES = 512 * 1024
"""Most bytes of the value that a dead letter carries: half of Kafka's default record limit."""

KEY_BYTES = 64 * 1024
"""Most bytes of the key: a source record may be nearly all key, and key, value and headers must fit together."""

REASON_BYTES = 2000
"""Most bytes of the reason; a stack trace does not belong in a header."""


class DeadLetters:
    """Writes dead letters inside the replica's transaction, so each is written once."""

    def __init__(self, plan: StagePlan, replica: str, transactor: Transactor, metrics: StageMetrics) -> None:
        self._topic = dead_letter_topic(plan.app)
        self._stage = plan.name
        self._replica = replica
        self._transactor = transactor
        self._metrics = metrics

    def record(self, message: Message, reason: str) -> None:
        """Set aside an input record that can't be decoded."""
        origin = {
            "topic": message.topic(),
            "partition": str(message.partition()),
            "offset": str(message.offset()),
        }
        self._write(message.key(), message.value(), reason, origin)

    def row(self, partition: int, value: bytes, reason: str) -> None:
        """Set aside a row that an operator can't process, as JSON; ``partition`` is the task's."""
        self._write(None, value, reason, {"partition": str(partition)})

    def _write(self, key: bytes | None, value: bytes | None, reason: str, origin: dict[str, str]) -> None:
        headers = {"stage": self._stage, "replica": self._replica, **origin, "reason": reason}
        if value is not None and len(value) > VALUE_BYTES:
            headers["truncated_from_bytes"] = str(len(value))
            value = value[:VALUE_BYTES]
        if key is not None and len(key) > KEY_BYTES:
            headers["key_truncated_from_bytes"] = str(len(key))
            key = key[:KEY_BYTES]
        self._transactor.dead_letters().produce(
            self._topic,
            0,
            key,
            value,
            headers=[(name, _header(text)) for name, text in headers.items()],
        )
        self._metrics.dead.inc()
        log.warning("dead letter", dead_letter_topic=self._topic, reason=reason, **origin)


def _header(text: str) -> bytes:
    """At most :data:`REASON_BYTES` of UTF-8, whatever the text: a message of user code may hold half characters."""
    cut = text.encode(errors="replace")[:REASON_BYTES]
    return cut.decode(errors="ignore").encode()
