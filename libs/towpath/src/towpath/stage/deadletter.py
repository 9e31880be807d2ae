"""The dead-letter topic: records that can't be processed, with the reason; nothing is lost."""

from __future__ import annotations

from statemgr.clock import Clock
from statemgr.kafka.ports import Message, TopicInfo
from statemgr.layout import dead_letter_topic
from towpath.query.plan import StagePlan
from towpath.stage.deadletter_log import DeadLetterLog
from towpath.stage.letter import fitted
from towpath.stage.metrics import StageMetrics
from towpath.stage.router import MAX_RECORD_BYTES, record_limit
from towpath.stage.transaction import Transactor


class DeadLetters:
    """Writes dead letters inside the replica's transaction, so each is written once."""

    def __init__(
        self, plan: StagePlan, replica: str, transactor: Transactor, metrics: StageMetrics, clock: Clock
    ) -> None:
        self._topic = dead_letter_topic(plan.app)
        self._stage = plan.name
        self._replica = replica
        self._transactor = transactor
        self._metrics = metrics
        self._limit = MAX_RECORD_BYTES
        self._log = DeadLetterLog(self._topic, clock)

    def fit(self, topic: TopicInfo) -> None:
        """Cut what is larger than the dead-letter topic takes: it would abort its transaction for ever (R21)."""
        self._limit = record_limit(topic)

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

    def report(self, *, last: bool = False) -> None:
        """Let the log say how many there were, see :meth:`DeadLetterLog.report`; to be called every now and then."""
        self._log.report(last=last)

    def _write(self, key: bytes | None, value: bytes | None, reason: str, origin: dict[str, str]) -> None:
        headers = {"stage": self._stage, "replica": self._replica, **origin, "reason": reason}
        letter = fitted(key, value, headers, self._limit)
        self._transactor.dead_letters().produce(self._topic, 0, letter.key, letter.value, headers=letter.headers)
        self._metrics.dead.inc()
        self._log.note(reason, origin)
