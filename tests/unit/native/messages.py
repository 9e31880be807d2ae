"""Records as objects, for what takes them as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Message:
    """A record as plain data, with the methods of ``confluent_kafka.Message``."""

    topic_: str = "t"
    partition_: int = 0
    offset_: int = 0
    value_: bytes | None = b"v"
    key_: bytes | None = None
    headers_: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_: tuple[int, int] = (1, 1000)

    def topic(self) -> str:
        return self.topic_

    def partition(self) -> int:
        return self.partition_

    def offset(self) -> int:
        return self.offset_

    def value(self) -> bytes | None:
        return self.value_

    def key(self) -> bytes | None:
        return self.key_

    def headers(self) -> Any:
        return list(self.headers_) or None

    def timestamp(self) -> tuple[int, int]:
        return self.timestamp_


def plain(messages: Sequence[Any]) -> list[Message]:
    """Any records as plain data."""
    return [
        Message(
            each.topic(),
            each.partition(),
            each.offset(),
            each.value(),
            each.key(),
            tuple(each.headers() or ()),
            each.timestamp(),
        )
        for each in messages
    ]
