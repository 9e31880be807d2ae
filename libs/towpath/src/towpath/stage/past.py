"""What a former owner had read of an input, and which of its rows it left undone (R1).

Keys are any bytes. The progress record is JSON, so there they are texts by Latin-1, which has one character for each
of the 256 bytes and gives the same bytes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from statemgr.progress import InputProgress
from statemgr.types import Position


def key_text(key: bytes) -> str:
    """A key as the progress record holds it."""
    return key.decode("latin-1")


def key_of(text: str) -> bytes:
    """Inverse of :func:`key_text`."""
    return text.encode("latin-1")


class Past(NamedTuple):
    """A former owner's progress in one input.

    Attributes:
        high: the first offset that it had not read.
        parked: key → its first row that is undone.
    """

    high: int
    parked: Mapping[bytes, Position]

    @classmethod
    def of(cls, progress: InputProgress) -> Past:
        """From the progress record."""
        return cls(progress.high, {key_of(key): Position(*first) for key, first in progress.parked.items()})

    def admits(self, key: bytes, position: Position) -> bool:
        """See :meth:`statemgr.progress.InputProgress.admits`, of which this is the form for many rows."""
        if position.offset >= self.high:
            return True
        first = self.parked.get(key)
        return first is not None and position >= first
