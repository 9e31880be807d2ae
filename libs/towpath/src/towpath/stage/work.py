"""What a replica is at right now, for whoever watches it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from statemgr.kafka.ports import Message

NAMED = 8
"""Partitions of a batch that are named: enough for a line that can be read."""


@dataclass(frozen=True)
class Work:
    """A piece of work.

    Attributes:
        since_s: when it began.
        doing: what it is; a function where saying so takes time, which only a stall is worth.
    """

    since_s: float
    doing: str | Callable[[], str] = "starting"

    @property
    def what(self) -> str:
        """What it is, in words."""
        return self.doing if isinstance(self.doing, str) else self.doing()


def batch_named(messages: Sequence[Message]) -> Callable[[], str]:
    """Names a batch by the first offset of each partition in it, since any of its records may be the one to blame."""

    def name() -> str:
        first: dict[tuple[str, int], int] = {}
        for message in messages:
            first.setdefault((message.topic(), message.partition()), message.offset())
        places = [f"{topic}[{partition}] offset {offset}" for (topic, partition), offset in first.items()]
        more = f" and {len(places) - NAMED} more" if len(places) > NAMED else ""
        return f"processing a batch from {', '.join(places[:NAMED])}{more}"

    return name
