"""How a producer gives many records to its client at once: as they lie in memory, or as one object a record.

NumPy is loaded where it is needed: a process that produces a record now and then does without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from confluent_kafka import KafkaError
from confluent_kafka import Producer as Client

from towpath_native import WHY_NOT

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from towpath_native.strings import Strings


class Refused(NamedTuple):
    """Records of a batch that are not in the queue for one reason: the reason, and their places in order."""

    error: KafkaError
    places: npt.NDArray[np.intp]


class RecordBatch(Protocol):
    """Records for one partition, in the form that a queue wants."""

    def __len__(self) -> int: ...

    def record(self, index: int) -> tuple[bytes | None, bytes | None]:
        """Key and value of one."""
        ...

    def some(self, places: npt.NDArray[np.intp]) -> RecordBatch:
        """The records at these places."""
        ...


class Queue(Protocol):
    """Queues batches in one client."""

    def batch(self, keys: Sequence[bytes | None] | None, values: Sequence[bytes | None]) -> Any:
        """A batch of these records, as many keys as values."""
        ...

    def queue(self, topic: str, partition: int, batch: Any) -> list[Refused]:
        """Queue a batch of this queue; gives the records that are not queued, by reason.

        Raises:
            KafkaException: the client refuses all of it.
        """
        ...


def queue_of(client: Client, *, reports: bool) -> Queue:
    """A queue of this client.

    Args:
        client: a producer.
        reports: whether the client's delivery reports are needed, which only objects have.
    """
    return ObjectQueue(client) if reports or WHY_NOT is not None else MemoryQueue(client)


class Objects(list[dict[str, Any]]):
    """A batch as confluent-kafka wants it."""

    def record(self, index: int) -> tuple[bytes | None, bytes | None]:
        """See :class:`RecordBatch`."""
        return self[index]["key"], self[index]["value"]

    def some(self, places: npt.NDArray[np.intp]) -> Objects:
        """See :class:`RecordBatch`."""
        return Objects(self[place] for place in places.tolist())


class ObjectQueue:
    """Gives the client one object a record."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def batch(self, keys: Sequence[bytes | None] | None, values: Sequence[bytes | None]) -> Objects:
        """See :class:`Queue`."""
        pairs = zip([None] * len(values) if keys is None else keys, values, strict=True)
        return Objects({"key": key, "value": value} for key, value in pairs)

    def queue(self, topic: str, partition: int, batch: Objects) -> list[Refused]:
        """See :class:`Queue`."""
        if self._client.produce_batch(topic, batch, partition) == len(batch):
            return []
        import numpy as np

        errors: dict[int, KafkaError] = {}
        places: dict[int, list[int]] = {}
        for index, entry in enumerate(batch):
            if "_error" in entry:
                error = entry.pop("_error")
                places.setdefault(errors.setdefault(error.code(), error).code(), []).append(index)
        return [Refused(errors[code], np.array(at, np.intp)) for code, at in places.items()]


@dataclass(frozen=True)
class InMemory:
    """A batch as it lies in memory."""

    keys: Strings | None
    values: Strings

    def __len__(self) -> int:
        return len(self.values)

    def record(self, index: int) -> tuple[bytes | None, bytes | None]:
        """See :class:`RecordBatch`."""
        return None if self.keys is None else self.keys[index], self.values[index]

    def some(self, places: npt.NDArray[np.intp]) -> InMemory:
        """See :class:`RecordBatch`."""
        return InMemory(None if self.keys is None else self.keys.at(places), self.values.at(places))


class MemoryQueue:
    """Lets the client copy the records from where they lie."""

    def __init__(self, client: Client) -> None:
        from towpath_native.publisher import Publisher
        from towpath_native.strings import Strings

        self._publisher = Publisher(client)
        self._strings = Strings

    def batch(self, keys: Sequence[bytes | None] | None, values: Sequence[bytes | None]) -> InMemory:
        """See :class:`Queue`."""
        return InMemory(None if keys is None else self._strings.of(keys), self._strings.of(values))

    def queue(self, topic: str, partition: int, batch: InMemory) -> list[Refused]:
        """See :class:`Queue`."""
        errors = self._publisher.publish(topic, partition, batch.keys, batch.values)
        if errors is None:
            return []
        import numpy as np

        return [Refused(KafkaError(int(code)), np.flatnonzero(errors == code)) for code in np.unique(errors) if code]
