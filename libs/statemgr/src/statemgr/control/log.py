"""Reading the control log: a consumer of its own, and the view that it feeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

from statemgr.clock import Clock, SystemClock
from statemgr.control.view import ControlView
from statemgr.errors import (
    InputLostError,
    KafkaUnavailableError,
    RestoreStalledError,
    StopRequestedError,
    TopicMismatchError,
)
from statemgr.kafka.ports import Bounds, Consumer, Kafka, Message
from statemgr.layout import control_topic
from statemgr.migration.ports import Pending, Spawn
from statemgr.types import TaskId, TopicPartition

END_TIMEOUT_S = 20.0
"""Reading to the end may wait for a transaction that a stopped writer left open: its time-out is 10 s, twice that."""

COMPARE_S = 1.0
"""Between two questions whether the topic is still the one that was read: two small requests each."""

_COMPARE_TIMEOUT_S = 1.0
"""For one while polling: no answer proves nothing, the next question is soon."""

_STEP_S = 0.1
_BATCH = 10_000
_BOUNDS_TIMEOUT_S = 5.0


_REMEDY = "what was decided is not in it any more: stop all processes of the application, then start them again"


def _never() -> bool:
    return False


class ControlReader:
    """Tails the control log of an application; used by one thread.

    Args:
        kafka: the cluster.
        app: the application.
        name: client id.
        clock: time.
        spawn: asks beside :meth:`poll` whether the topic is still the one that was read; None: within it.

    Attributes:
        view: what the log says so far.
        caught_up_s: monotonic time before which nothing of the log is unread; None before the first reading to the end.
    """

    def __init__(
        self, kafka: Kafka, app: str, name: str, clock: Clock | None = None, spawn: Spawn | None = None
    ) -> None:
        self.view = ControlView()
        self.caught_up_s: float | None = None
        self._kafka = kafka
        self._name = name
        self._clock: Clock = clock or SystemClock()
        self._partition = TopicPartition(control_topic(app), 0)
        self._consumer: Consumer | None = None
        self._spawn = spawn
        self._topic_id = ""
        self._compared_s = float("-inf")
        self._asking: Pending[str] | None = None

    def poll(self, timeout_s: float = 0.0) -> list[TaskId]:
        """Take what is there; waits up to ``timeout_s`` for the first record.

        Returns:
            Tasks of which the log said something new, each once.

        Raises:
            CodecError: a record can't be understood (R19).
            KafkaUnavailableError, TopicMissingError: the log can't be read.
            TopicMismatchError: the log ends before what was read of it, or was made anew (R19).
        """
        try:
            reader = self._reader()
            self._compare_while_polling()
            messages = reader.consume(_BATCH, timeout_s)
        except InputLostError:  # records below the position were deleted: the newest of each key are further on
            self._assign(self._reader())
            return []
        return self._apply(messages)

    def read_to_end(self, timeout_s: float = END_TIMEOUT_S, stop: Callable[[], bool] = _never) -> list[TaskId]:
        """Read to an end that is asked for now, so after whatever the caller has done before (R3, R6).

        Raises:
            RestoreStalledError: the end was not reached before the deadline.
            StopRequestedError: ``stop`` said so.
            TopicMismatchError: the log ends before what was read of it, or was made anew (R19).
        """
        started_s = self._clock.monotonic_s()
        changed: dict[TaskId, None] = {}
        end = self._bounds(self._reader()).end
        if self._comparison_is_due():
            self._compare(self._ask_id(_BOUNDS_TIMEOUT_S))
        while not self._passed(end):
            if stop():
                raise StopRequestedError("asked to stop while reading the control log")
            if self._clock.monotonic_s() - started_s >= timeout_s:
                raise RestoreStalledError(
                    f"the control log {self._partition} was not read to offset {end} within {timeout_s:g} s (now at "
                    f"{self.view.next_offset}); a transaction may be open there (kafka-transactions.sh find-hanging)"
                )
            changed |= dict.fromkeys(self.poll(_STEP_S))
        self.caught_up_s = started_s
        return list(changed)

    def close(self) -> None:
        """Free the consumer."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _reader(self) -> Consumer:
        """The consumer, which has its assignment; one that could not be given it is not kept."""
        if self._consumer is None:
            consumer = self._kafka.consumer(name=self._name)
            try:
                self._assign(consumer)
            except BaseException:
                consumer.close()
                raise
            self._consumer = consumer
        return self._consumer

    def _assign(self, consumer: Consumer) -> None:
        start = self._bounds(consumer).start
        self._compare(self._ask_id(_BOUNDS_TIMEOUT_S))
        consumer.assign({self._partition: max(start, self.view.next_offset)})

    def _bounds(self, consumer: Consumer) -> Bounds:
        """Where the log begins and ends; what was read of it is never beyond its end, unless it is another."""
        bounds = consumer.bounds(self._partition, _BOUNDS_TIMEOUT_S)
        if self.view.next_offset > bounds.end:
            raise TopicMismatchError(
                f"the control log {self._partition} ends at offset {bounds.end}, but was read to "
                f"{self.view.next_offset}: the topic was made anew, or lost records; {_REMEDY}"
            )
        return bounds

    def _compare_while_polling(self) -> None:
        """Compare now and then; a caller that must not wait takes the answer when it comes by."""
        try:
            if self._asking is not None and self._asking.done():
                asked, self._asking = self._asking, None
                self._compare(asked.result())
            elif self._asking is None and self._comparison_is_due():
                if self._spawn is None:
                    self._compare(self._ask_id(_COMPARE_TIMEOUT_S))
                else:
                    self._compared_s = self._clock.monotonic_s()
                    self._asking = self._spawn(lambda: self._ask_id(_COMPARE_TIMEOUT_S))
        except KafkaUnavailableError:
            self._compared_s = self._clock.monotonic_s()  # or one that hangs would be asked at every turn

    def _comparison_is_due(self) -> bool:
        return self._clock.monotonic_s() - self._compared_s >= COMPARE_S

    def _ask_id(self, timeout_s: float) -> str:
        """Id of the topic (KIP-516); empty: it is not there, or not whole, at the moment."""
        topic = self._partition.topic
        found = self._kafka.admin().describe([topic], timeout_s)
        return found[topic].topic_id if topic in found else ""

    def _compare(self, topic_id: str) -> None:
        """Another id means another log, however long it is."""
        self._compared_s = self._clock.monotonic_s()
        if self._topic_id and topic_id not in ("", self._topic_id):
            raise TopicMismatchError(
                f"the control log {self._partition} was made anew while it was read (topic id {topic_id}, before "
                f"{self._topic_id}); {_REMEDY}"
            )
        self._topic_id = self._topic_id or topic_id

    def _apply(self, messages: Sequence[Message]) -> list[TaskId]:
        changed: dict[TaskId, None] = {}
        for message in messages:
            task = self.view.apply(message.offset(), message.key(), message.value())
            if task is not None:
                changed[task] = None
        return list(changed)

    def _passed(self, end: int) -> bool:
        if self.view.next_offset >= end:
            return True
        position = self._reader().position(self._partition)
        return position is not None and position >= end
