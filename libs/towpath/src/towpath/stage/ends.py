"""Whether an input has been read to its end, by the broker's word."""

from __future__ import annotations

from statemgr.errors import StateError
from statemgr.kafka.ports import Consumer
from statemgr.types import TopicPartition

ANSWER_S = 0.2
"""How long the broker may take to answer: who asks does nothing else meanwhile."""


class Ends:
    """Looks for the ends of inputs."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def reached(self, source: TopicPartition) -> bool:
        """Whether nothing is left to be read; not so while the broker does not tell.

        What is known without asking does not do: it is as old as the last answer, and a partition whose leader is away
        would seem to be read to its end.
        """
        try:
            position = self._consumer.position(source)
            return position is not None and position >= self._consumer.bounds(source, ANSWER_S).end
        except StateError:
            return False
