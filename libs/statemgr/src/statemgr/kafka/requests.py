"""Queries and administration requests: repeated until a deadline, errors named once for all of them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from statemgr.addresses import parse_servers, unresolved
from statemgr.errors import KafkaRefusedError, KafkaUnavailableError, StateError, TopicMissingError
from statemgr.kafka.classify import Reaction, Source, classify
from statemgr.kafka.ports import Bounds, Committed
from statemgr.types import TopicPartition

PAUSE_S = 0.02
"""Between two tries of a request: about the time of a leader election's metadata round."""

GRACE_S = 0.25
"""Beyond a request's own time-out, for the client's thread to report it."""

MAX_REQUEST_S = 5.0
"""Longest single try: after a broker was away a request can wait for something that never comes."""

REFRESH_S = 1.0
"""For renewing the metadata between two tries."""

MIN_REQUEST_S = 0.05
"""Shortest time-out handed to the client; below it the request would end before the broker can answer."""

_ASKING = {"enable.auto.commit": False, "isolation.level": "read_committed"}
"""A read_committed consumer asks for stable offsets only."""

T = TypeVar("T")
K = TypeVar("K")


def _known(bounds: Bounds) -> Bounds:
    """The bounds; a broker that has just started was seen to answer without an error and without offsets (-1001).

    Taken for an answer, that would be an empty log.
    """
    if bounds.start < 0 or bounds.end < 0:
        raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE, f"no offsets in the answer: {bounds}"))
    return bounds


class Requests:
    """An administration client with deadlines; may be shared by threads.

    Args:
        settings: of the client.
        bootstrap: named in errors.
    """

    def __init__(self, settings: Mapping[str, Any], bootstrap: str) -> None:
        self._settings = dict(settings)
        heard: dict[str, Any] = {**settings, "error_cb": self._on_error}
        self.client = AdminClient(heard)
        self.bootstrap = bootstrap
        self._turned_away: KafkaError | None = None

    def repeat(self, what: str, timeout_s: float, request: Callable[[float], T]) -> T:
        """Try until the deadline; ``request`` gets the seconds that are left.

        Raises:
            KafkaUnavailableError: the deadline passed, or the broker refuses.
            TopicMissingError: no such topic or partition.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            left = deadline - time.monotonic()
            try:
                answer = request(min(max(left, MIN_REQUEST_S), MAX_REQUEST_S))
            except FutureTimeoutError as error:
                cause: Exception = error
            except KafkaException as error:
                if classify(error.args[0], Source.REQUEST) is not Reaction.RETRY:
                    raise named(what, error.args[0], self.bootstrap) from error
                cause = error
            else:
                self._turned_away = None
                return answer
            if deadline - time.monotonic() <= PAUSE_S:
                self.client.poll(0)
                if self._turned_away is not None:
                    raise named(what, self._turned_away, self.bootstrap) from cause
                raise unavailable(what, timeout_s, self.bootstrap, cause) from cause
            self._refresh(deadline)
            time.sleep(PAUSE_S)

    def _on_error(self, error: KafkaError) -> None:
        """Remember why no broker talks to this client: its requests themselves only say that time has passed."""
        if classify(error, Source.EVENT) is Reaction.REFUSED:
            self._turned_away = error

    def _refresh(self, deadline: float) -> None:
        """Renew the client's metadata: it repeats requests with an old leader epoch or controller for ever."""
        left = min(deadline - time.monotonic(), REFRESH_S)
        if left > 0:
            with contextlib.suppress(KafkaException):
                self.client.list_topics(timeout=left)

    def bounds(self, partition: TopicPartition, timeout_s: float) -> Bounds:
        """Log start and high watermark; asked as read_uncommitted (R6).

        A read_committed consumer's own query answers with the last stable offset, which stands still while any
        transaction is open.
        """

        def ask(left: float) -> Bounds:
            at = ClientPartition(partition.topic, partition.partition)
            start, end = (
                self.client.list_offsets(
                    {at: spec}, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=left
                )[at]
                for spec in (OffsetSpec.earliest(), OffsetSpec.latest())  # type: ignore[no-untyped-call]
            )
            try:
                return _known(Bounds(start.result(left + GRACE_S).offset, end.result(left + GRACE_S).offset))
            except KafkaException:
                # A missing topic is answered like one without a leader for the moment.
                self._check_exists(partition, left)
                raise

        return self.repeat(f"offsets of {partition}", timeout_s, ask)

    def committed(
        self, group: str, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, Committed]:
        """Stable committed offsets: while a transaction with offsets is open, the question is repeated (R6).

        Asked by a consumer of its own: once a broker has been restarted, an administration client's questions to the
        group's coordinator got no answer any more, and ended the process by a failed assertion when it was closed
        (librdkafka 2.16.0). It costs a connection, 20–80 ms, once for each time of ownership.
        """
        if not partitions:
            return {}

        def ask(left: float) -> dict[TopicPartition, Committed]:
            client = Consumer({**self._settings, **_ASKING, "group.id": group})
            try:
                entries = client.committed([ClientPartition(*partition) for partition in partitions], timeout=left)
            finally:
                client.close()
            found = {}
            for entry in entries:
                if entry.error is not None:
                    raise KafkaException(entry.error)
                offset = None if entry.offset < 0 else entry.offset
                found[TopicPartition(entry.topic, entry.partition)] = Committed(offset, entry.metadata or "")
            return found

        found = self.repeat(f"committed offsets of group {group}", timeout_s, ask)
        return {partition: found.get(partition, Committed(None, "")) for partition in partitions}

    def _check_exists(self, partition: TopicPartition, timeout_s: float) -> None:
        found = self.client.list_topics(partition.topic, timeout=timeout_s).topics.get(partition.topic)
        if found is None or found.error is not None or partition.partition not in found.partitions:
            raise TopicMissingError(f"{partition} does not exist at {self.bootstrap}; create the topic first")


def settle(futures: Mapping[K, Future[T]], timeout_s: float) -> tuple[dict[K, T], dict[K, KafkaError]]:
    """Answers and errors of a request for several things."""
    deadline = time.monotonic() + timeout_s + GRACE_S
    answers: dict[K, T] = {}
    errors: dict[K, KafkaError] = {}
    for name, future in futures.items():
        try:
            answers[name] = future.result(max(deadline - time.monotonic(), 0))
        except KafkaException as error:
            errors[name] = error.args[0]
    return answers, errors


def unavailable(what: str, timeout_s: float, bootstrap: str, cause: BaseException) -> KafkaUnavailableError:
    """The error of a deadline that has passed."""
    return KafkaUnavailableError(
        f"{what}: no answer from Kafka at {bootstrap} within {timeout_s:g} s ({_text(cause)}); {_remedy(bootstrap)}"
    )


def _remedy(bootstrap: str) -> str:
    """The client itself reports names that do not resolve as time-outs."""
    with contextlib.suppress(ValueError):
        for host, reason in unresolved(parse_servers(bootstrap)).items():
            return f"the name {host} does not resolve ({reason}): correct the address, or the name service"
    return "check that a broker runs there and that its advertised address can be reached from here"


def named(what: str, error: KafkaError, bootstrap: str) -> StateError:
    """The error of a request that was refused."""
    if classify(error, Source.REQUEST) is Reaction.MISSING:
        return TopicMissingError(f"{what}: {error.str()} at {bootstrap}; create the topic first")
    return KafkaRefusedError(
        f"{what}: refused by Kafka at {bootstrap}: {error.name()}: {error.str()}; "
        "check address, credentials and rights of this client"
    )


def _text(cause: BaseException) -> str:
    if isinstance(cause, KafkaException):
        return str(cause.args[0].str())
    return type(cause).__name__
