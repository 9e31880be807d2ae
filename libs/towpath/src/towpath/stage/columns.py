"""Records of a batch, looked at as columns: quick where the client gives them so, one by one where it gives objects."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, groupby

import numpy as np
import numpy.typing as npt

from statemgr.kafka.ports import Message
from statemgr.types import TopicPartition
from towpath_native.records import Records


def by_topic(messages: Sequence[Message]) -> dict[str, Sequence[Message]]:
    """The records of each topic, in their order."""
    if isinstance(messages, Records):
        topics = messages.topics
        if len(topics) == 1:
            return {topics[0]: messages}
        found = {topic: np.flatnonzero(messages.topic == place) for place, topic in enumerate(topics)}
        return {topic: messages.at(places) for topic, places in found.items() if len(places)}
    groups: dict[str, list[Message]] = {}
    for topic, run in groupby(messages, type(messages[0]).topic):
        groups.setdefault(topic, []).extend(run)
    return dict(groups)


def partitions(messages: Sequence[Message]) -> npt.NDArray[np.int32]:
    """The partition of each record."""
    if isinstance(messages, Records):
        return messages.partition
    return np.fromiter(map(type(messages[0]).partition, messages), np.int32, len(messages))


def offsets(messages: Sequence[Message]) -> npt.NDArray[np.int64]:
    """The offset of each record."""
    if isinstance(messages, Records):
        return messages.offset
    return np.fromiter(map(type(messages[0]).offset, messages), np.int64, len(messages))


def timestamps(messages: Sequence[Message]) -> npt.NDArray[np.int64]:
    """The timestamp of each record, in ms."""
    if isinstance(messages, Records):
        return messages.timestamp
    return np.fromiter((message.timestamp()[1] for message in messages), np.int64, len(messages))


def some_timestamps(messages: Sequence[Message], step: int) -> npt.NDArray[np.int64]:
    """The timestamp of every ``step``-th record, in ms; the others are not looked at.

    Copied: columns of the client keep all memory of their records, values too, for as long as one of them is there.
    """
    if isinstance(messages, Records):
        return messages.timestamp[::step].copy()
    return np.array([message.timestamp()[1] for message in messages[::step]], np.int64)


def values(messages: Sequence[Message]) -> Sequence[bytes | None]:
    """The value of each record; cells of one buffer where the client gives columns."""
    return messages.value if isinstance(messages, Records) else list(map(type(messages[0]).value, messages))


def keys(messages: Sequence[Message]) -> Sequence[bytes | None]:
    """The key of each record."""
    return messages.key if isinstance(messages, Records) else list(map(type(messages[0]).key, messages))


def of_source(messages: Sequence[Message], source: TopicPartition) -> npt.NDArray[np.bool_]:
    """Which of the records come from this partition."""
    if isinstance(messages, Records):
        topic = messages.topics.index(source.topic) if source.topic in messages.topics else -1
        found: npt.NDArray[np.bool_] = (messages.topic == topic) & (messages.partition == source.partition)
        return found
    return np.fromiter(
        ((message.topic(), message.partition()) == source for message in messages), np.bool_, len(messages)
    )


def chosen(messages: Sequence[Message], mask: npt.NDArray[np.bool_]) -> Sequence[Message]:
    """The records where the mask is true; columns stay columns."""
    if isinstance(messages, Records):
        return messages.at(np.flatnonzero(mask))
    return list(compress(messages, mask))


def run_starts(partition: npt.NDArray[np.int32]) -> npt.NDArray[np.intp]:
    """Where each run of records of one partition begins; a client hands over what it has fetched that way."""
    return np.concatenate([np.zeros(1, np.intp), np.flatnonzero(partition[1:] != partition[:-1]) + 1])


def mean_value_bytes(messages: Sequence[Message], most: int) -> float:
    """Mean size of the values, by at most about so many of them where each has to be looked at."""
    if isinstance(messages, Records):
        return float(messages.value.sizes.mean())
    some = messages[:: -(-len(messages) // most)]
    return sum(len(message.value() or b"") for message in some) / len(some)
