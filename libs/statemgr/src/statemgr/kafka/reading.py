"""How a consumer takes records from its client: one object a record, or columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, cast

from confluent_kafka import Consumer as Client
from confluent_kafka import KafkaError
from confluent_kafka import Message as ClientMessage

from statemgr.kafka.ports import Message
from statemgr.types import TopicPartition
from towpath_native import WHY_NOT
from towpath_native.fetcher import Fault as ClientFault
from towpath_native.fetcher import Fetcher


class Fault(NamedTuple):
    """An error that came among the records.

    Attributes:
        error: what the client says.
        at: the partition that it is about; None: the whole client.
        offset: where in that partition; None: nowhere.
    """

    error: KafkaError
    at: TopicPartition | None
    offset: int | None


class Taken(NamedTuple):
    """What one look brought: records, and errors behind them."""

    records: Sequence[Message]
    faults: Sequence[Fault] = ()


class Reader(Protocol):
    """Takes from one client."""

    def expect(self, partitions: Iterable[TopicPartition]) -> None:
        """To be called before partitions are assigned, each time."""
        ...

    def take(self, most: int, timeout_s: float) -> Taken:
        """Whatever is there, at most ``most`` records; waits up to ``timeout_s`` for the first.

        Raises:
            KafkaException: the client refuses.
        """
        ...

    def close(self) -> None:
        """To be called before the client is closed."""
        ...


def reader_of(client: Client, *, columns: bool) -> Reader:
    """A reader of this client; of columns if they are asked for and can be had here."""
    return ColumnReader(client) if columns and WHY_NOT is None else MessageReader(client)


class MessageReader:
    """Gives the client's own messages."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def expect(self, partitions: Iterable[TopicPartition]) -> None:
        """See :class:`Reader`."""

    def take(self, most: int, timeout_s: float) -> Taken:
        """See :class:`Reader`."""
        # librdkafka waits until it has as many as asked for, so only the first record is waited for.
        messages = self._client.consume(most, 0)
        if not messages and timeout_s > 0:
            messages = self._client.consume(1, timeout_s)
            if messages and most > 1:
                messages += self._client.consume(most - 1, 0)
        if not any(map(ClientMessage.error, messages)):
            return Taken(cast("list[Message]", messages))
        good = [message for message in messages if message.error() is None]
        return Taken(cast("list[Message]", good), [_fault(message) for message in messages if message.error()])

    def close(self) -> None:
        """See :class:`Reader`."""


class ColumnReader:
    """Gives :class:`towpath_native.records.Records`."""

    def __init__(self, client: Client) -> None:
        self._fetcher = Fetcher(client)

    def expect(self, partitions: Iterable[TopicPartition]) -> None:
        """See :class:`Reader`."""
        for at in partitions:
            self._fetcher.route(at.topic, at.partition)

    def take(self, most: int, timeout_s: float) -> Taken:
        """See :class:`Reader`."""
        records, faults = self._fetcher.fetch(most, timeout_s)
        return Taken(cast("Sequence[Message]", records), [_named_fault(fault) for fault in faults])

    def close(self) -> None:
        """See :class:`Reader`."""
        self._fetcher.close()


def _fault(message: Any) -> Fault:
    topic, number = message.topic(), message.partition()
    return Fault(message.error(), _partition(topic, number), message.offset())


def _named_fault(fault: ClientFault) -> Fault:
    offset = fault.offset if fault.offset >= 0 else None
    return Fault(KafkaError(fault.code, fault.text), _partition(fault.topic, fault.partition), offset)


def _partition(topic: str | None, number: int | None) -> TopicPartition | None:
    return None if topic is None or number is None else TopicPartition(topic, number)
