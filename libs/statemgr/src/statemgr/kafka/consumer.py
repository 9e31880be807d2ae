"""A manually assigned consumer by librdkafka."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from confluent_kafka import Consumer as Client
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from statemgr.errors import InputLostError, StateError, TopicMissingError
from statemgr.kafka.classify import Reaction, Source, classify
from statemgr.kafka.ports import Bounds, Committed, Message
from statemgr.kafka.reading import Fault, reader_of
from statemgr.kafka.requests import Requests, named
from statemgr.types import TopicPartition

T = TypeVar("T")

log = logging.getLogger("statemgr.kafka")

MAX_BATCH = 1_000_000
"""The most records that librdkafka hands over in one call."""

BOUNDS_FOR_ERROR_S = 2.0
"""How long an error about a lost position may take to say what the log still holds."""


WARM_S = 0.5
"""How long ``assign`` and ``add`` wait for the metadata of a topic that this client has not read so far.

Without it librdkafka finds the partition's leader by a scan once a second: first record after 725–950 ms, with it
after 30–45 ms.
"""


CONNECT_S = 0.2
"""Longest wait for a leader to tell a partition's ends, which opens the connection to it: milliseconds on a network."""


class ConfluentConsumer:
    """Implements :class:`~statemgr.kafka.ports.Consumer`.

    Errors arrive among the records. Records that came with one are returned first and the error is raised by the next
    call, so that nothing read is lost; an error of a partition that has been taken away meanwhile is dropped. A call
    that the client itself refuses raises KafkaUnavailableError or TopicMissingError with the partitions' names.

    Attributes:
        notes: how often the client reported each passing trouble (by error name), for metrics.
    """

    def __init__(self, settings: Mapping[str, Any], requests: Requests, *, columns: bool = False) -> None:
        self.notes: Counter[str] = Counter()
        self._requests = requests
        self._starts: dict[TopicPartition, int] = {}
        self._resting: dict[TopicPartition, int] = {}
        self._known: set[str] = set()
        self._doubtful = False
        self._pending: list[tuple[TopicPartition | None, StateError]] = []
        self._client = Client({**settings, "error_cb": self._on_error})
        self._reader = reader_of(self._client, columns=columns and not _served_by_polling(settings))

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Replace the assignment; each partition starts at its explicit offset, unpaused."""
        self._warm(positions)
        self._forget(list(self._starts))
        self._assign(self._client.assign, positions)
        self._starts = dict(positions)

    def add(self, positions: Mapping[TopicPartition, int]) -> None:
        """Add partitions without disturbing the others; one that is assigned already is moved to the new offset."""
        self.remove(list(positions))
        if positions:
            self._warm(positions)
            self._assign(self._client.incremental_assign, positions)
            self._starts.update(positions)

    def remove(self, partitions: Sequence[TopicPartition]) -> None:
        """Drop partitions without disturbing the others; unknown ones are passed over."""
        present = [partition for partition in partitions if partition in self._starts]
        fetched = [partition for partition in present if partition not in self._resting]
        if fetched:
            self._call("releasing", fetched, self._client.incremental_unassign, _named(fetched))
        self._forget(present)

    def warm(self, partitions: Sequence[TopicPartition]) -> None:
        """Learn leaders and open connections; see :meth:`statemgr.kafka.ports.Consumer.warm`.

        One partition of each leader is asked for its ends. Nothing is assigned for it: a request for the end of an
        assigned partition that finds the broker away is repeated later by the client itself, and might then move a
        partition that is being read from its own offset by that time.
        """
        self._warm(partitions)
        for at in self._one_of_each_leader(partitions):
            with suppress(KafkaException):
                self._client.get_watermark_offsets(ClientPartition(at.topic, at.partition), timeout=CONNECT_S)

    def _one_of_each_leader(self, partitions: Iterable[TopicPartition]) -> Iterable[TopicPartition]:
        found: dict[int, TopicPartition] = {}
        for topic in {at.topic for at in partitions} & self._known:
            try:
                known = self._client.list_topics(topic, timeout=WARM_S).topics[topic].partitions
            except (KafkaException, KeyError):
                continue
            for at in partitions:
                if at.topic == topic and at.partition in known:
                    found.setdefault(known[at.partition].leader, at)
        return found.values()

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop delivering these partitions; what was prefetched is read again after :meth:`resume`.

        The partition leaves the client's own assignment meanwhile. With librdkafka's own pause, when all partitions of
        a broker are paused nothing wakes its thread at the resume: first record after 420–700 ms, this way 1–24 ms.
        """
        present = [each for each in partitions if each in self._starts and each not in self._resting]
        if present:
            self._resting.update({each: self._position(each) for each in present})
            self._call("releasing", present, self._client.incremental_unassign, _named(present))

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Deliver these partitions again, from where they stopped."""
        positions = {each: self._resting.pop(each) for each in partitions if each in self._resting}
        if positions:
            self._assign(self._client.incremental_assign, positions)
            self._starts.update(positions)

    def consume(self, max_records: int, timeout_s: float) -> Sequence[Message]:
        """Whatever is there, at most ``max_records``; waits up to ``timeout_s`` for the first.

        Raises:
            InputLostError: a position is outside the log; names topic, partition, offset and the log's bounds.
            TopicMissingError: an assigned topic or partition does not exist (any more).
            KafkaUnavailableError: fatal error, or the broker refuses this client.
        """
        if self._pending:
            raise self._pending.pop(0)[1]
        taken = self._call("reading", self._starts, self._reader.take, min(max_records, MAX_BATCH), max(0.0, timeout_s))
        for fault in taken.faults:
            self._note(fault)
        if self._doubtful:
            self._look_for_missing()
        if self._pending and not taken.records:
            raise self._pending.pop(0)[1]
        return taken.records

    def position(self, partition: TopicPartition) -> int | None:
        """Next offset to be read; passes transaction markers; None if not assigned."""
        if partition not in self._starts:
            return None
        return self._resting[partition] if partition in self._resting else self._position(partition)

    def lag(self, partition: TopicPartition) -> int | None:
        """Offsets from the position to the high watermark, as of the newest fetch; None while unknown. Asks nobody."""
        try:
            position = self.position(partition)
            _, end = self._client.get_watermark_offsets(ClientPartition(*partition), cached=True)
        except (KafkaException, StateError):  # nothing is known of it, or the next read says what is wrong
            return None
        return max(0, end - position) if position is not None and end >= 0 else None

    def bounds(self, partition: TopicPartition, timeout_s: float) -> Bounds:
        """Log start and high watermark, asked as read_uncommitted whatever this consumer's isolation (R6).

        Raises:
            TopicMissingError: no such topic or partition.
            KafkaUnavailableError: no answer before the deadline.
        """
        return self._requests.bounds(partition, timeout_s)

    def committed(
        self, group: str, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, Committed]:
        """Committed offsets of a group, stable ones only (R6).

        Raises:
            KafkaUnavailableError: no stable answer before the deadline.
        """
        return self._requests.committed(group, partitions, timeout_s)

    def close(self) -> None:
        """Free the client."""
        self._reader.close()
        self._client.close()

    def _warm(self, positions: Iterable[TopicPartition]) -> None:
        for topic in sorted({at.topic for at in positions} - self._known):
            try:
                self._client.list_topics(topic, timeout=WARM_S)
            except KafkaException as error:
                self._count(error.args[0])
                return
            self._known.add(topic)

    def _assign(self, call: Callable[[list[ClientPartition]], None], positions: Mapping[TopicPartition, int]) -> None:
        self._reader.expect(positions)
        self._call("assigning", positions, call, _at(positions))

    def _position(self, partition: TopicPartition) -> int:
        found = self._call("position of", [partition], self._client.position, _named([partition]))
        offset = found[0].offset
        return offset if offset is not None and offset >= 0 else self._starts[partition]

    def _call(self, what: str, partitions: Iterable[TopicPartition], call: Callable[..., T], *arguments: object) -> T:
        """Run a call of the client and name its error; an error within a message is no concern of this."""
        try:
            return call(*arguments)
        except KafkaException as error:
            text = f"{what} {', '.join(map(str, sorted(partitions)))}"
            raise named(text, error.args[0], self._requests.bootstrap) from error

    def _forget(self, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            self._starts.pop(partition, None)
            self._resting.pop(partition, None)
        self._pending = [item for item in self._pending if item[0] is None or item[0] in self._starts]

    def _note(self, fault: Fault) -> None:
        error, at, offset = fault
        if at is None:
            self._on_error(error)
            return
        if at.partition >= 0 and at not in self._starts:
            return
        reaction = classify(error, Source.EVENT)
        if reaction is Reaction.NOTE:
            self._count(error)
        elif reaction is Reaction.INPUT_LOST and at.partition >= 0:
            self._pending.append((at, self._input_lost(at, offset, error)))
        elif reaction is Reaction.MISSING:
            self._pending.append((at, _missing(at if at.partition >= 0 else at.topic, error.str())))
        else:
            self._pending.append((None, named("reading", error, self._requests.bootstrap)))

    def _input_lost(self, partition: TopicPartition, offset: int | None, error: KafkaError) -> InputLostError:
        try:
            start, end = self._requests.bounds(partition, BOUNDS_FOR_ERROR_S)
            held = f"the log holds {start} … {end}"
        except StateError as unknown:
            held = f"what the log holds is not known ({type(unknown).__name__})"
        return InputLostError(
            f"{partition}: offset {offset} can't be read, {held} ({error.str()}); the records were deleted by "
            "retention or the topic was made anew: choose to skip them, or restore the topic"
        )

    def _on_error(self, error: KafkaError) -> None:
        reaction = classify(error, Source.EVENT)
        if reaction is Reaction.REFUSED:
            self._pending.append((None, named("connecting", error, self._requests.bootstrap)))
        else:
            # Of a missing topic the client says here only that there is one.
            self._doubtful = self._doubtful or reaction is Reaction.MISSING
            self._count(error)

    def _look_for_missing(self) -> None:
        """Name the assigned partitions that do not exist."""
        self._doubtful = False
        for topic in sorted({at.topic for at in self._starts}):
            try:
                found = self._client.list_topics(topic, timeout=WARM_S).topics.get(topic)
            except KafkaException as error:
                self._count(error.args[0])
                self._doubtful = True
                return
            existing = {} if found is None or found.error is not None else found.partitions
            self._pending += [
                (at, _missing(at, "unknown to the broker"))
                for at in sorted(self._starts)
                if at.topic == topic and at.partition not in existing
            ]

    def _count(self, error: KafkaError) -> None:
        name = error.name()
        if self.notes[name]:
            log.debug("consumer of %s: %s: %s", self._requests.bootstrap, name, error.str())
        else:
            log.warning("consumer of %s: %s: %s", self._requests.bootstrap, name, error.str())
        self.notes[name] += 1


def _served_by_polling(settings: Mapping[str, Any]) -> bool:
    """Whether the client fetches new tokens while it is polled for messages, which a reader of columns does not do."""
    mechanisms = (settings.get("sasl.mechanism"), settings.get("sasl.mechanisms"))
    return "OAUTHBEARER" in mechanisms and settings.get("sasl.oauthbearer.method") != "oidc"


def _missing(what: object, reason: str) -> TopicMissingError:
    return TopicMissingError(f"{what} can't be read: {reason}; it was deleted or never created")


def _at(positions: Mapping[TopicPartition, int]) -> list[ClientPartition]:
    return [ClientPartition(at.topic, at.partition, offset) for at, offset in positions.items()]


def _named(partitions: Iterable[TopicPartition]) -> list[ClientPartition]:
    return [ClientPartition(at.topic, at.partition) for at in partitions]
