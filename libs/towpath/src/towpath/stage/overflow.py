"""Records that were read too early: there was no room among the parked rows, or no schema; they are processed later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from statemgr.kafka.ports import Message
from statemgr.types import TopicPartition
from towpath.stage import columns
from towpath.stage.tasks import OwnedTask


class Overflow:
    """Keeps them in input order: about one batch of each input, since a full task's inputs are paused."""

    def __init__(self) -> None:
        self._kept: dict[TopicPartition, list[Message]] = {}
        self._tasks: Mapping[int, OwnedTask] = {}

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._kept)

    def own(self, tasks: Mapping[int, OwnedTask]) -> None:
        """These are the tasks now; records of others, or of the same under another epoch, are forgotten."""
        self._kept = {
            source: messages
            for source, messages in self._kept.items()
            if tasks.get(source.partition) is self._tasks.get(source.partition)
        }
        self._tasks = dict(tasks)

    def keep(self, messages: Sequence[Message], stops: Mapping[TopicPartition, int]) -> None:
        """Keep the records of these inputs from these offsets on."""
        for source, stop in stops.items():
            self._tasks[source.partition].behind.add(source.topic)
            taken = columns.chosen(messages, columns.of_source(messages, source))
            self._kept[source] = [message for message in taken if message.offset() >= stop]

    def keep_all(self, messages: Sequence[Message]) -> None:
        """Keep all of them, and take no more from their inputs until they can be decoded."""
        sources = [
            TopicPartition(topic, partition)
            for topic, group in columns.by_topic(messages).items()
            for partition in np.unique(columns.partitions(group)).tolist()
        ]
        self.keep(messages, dict.fromkeys(sources, 0))
        for source in sources:
            self._tasks[source.partition].undecoded = True

    def add(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Keep the records of inputs that are kept already; gives the others."""
        others = np.ones(len(messages), np.bool_)
        for source, kept in self._kept.items():
            mask = columns.of_source(messages, source)
            kept.extend(columns.chosen(messages, mask))
            others &= ~mask
        return messages if others.all() else columns.chosen(messages, others)

    def take(self) -> list[Message]:
        """Records of tasks that have room again, to be processed now."""
        sources = [source for source in self._kept if not self._tasks[source.partition].full]
        for source in sources:
            self._tasks[source.partition].behind.discard(source.topic)
        return [message for source in sources for message in self._kept.pop(source)]
