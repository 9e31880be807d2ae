"""The progress record (rule R1): cut, restart point and authority over a task's input position.

Every transaction that touches a task ends with one such record in the task's changelog partition.
"""

from __future__ import annotations

import msgspec

from statemgr.codecs import UNREADABLE
from statemgr.errors import CodecError
from statemgr.types import Position


class InputProgress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far one input partition of a task has come.

    Attributes:
        low: lowest incomplete offset; reading starts here after a take-over.
        high: next offset to be read for the first time.
        parked: key → first incomplete (offset, row); rows of such keys between low and high are still to be done.
        topic_id: id of the input topic, so that one made anew under the same name is noticed; empty: unknown.
    """

    low: int
    high: int
    parked: dict[str, tuple[int, int]] = {}
    topic_id: str = ""

    def admits(self, position: Position, key: str) -> bool:
        """Whether a row read after a take-over is to be processed (R1): never twice, never skipped."""
        if position.offset >= self.high:
            return True
        first = self.parked.get(key)
        return first is not None and tuple(position) >= tuple(first)


class Progress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The progress record of a task.

    Attributes:
        epoch: the owner's epoch when it was written.
        inputs: topic → progress in that topic's partition of the task.
        watermarks: upstream task → watermark in ms of event time.
    """

    epoch: int
    inputs: dict[str, InputProgress]
    watermarks: dict[str, int] = {}


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Progress)


def encode_progress(progress: Progress) -> bytes:
    """The record's value: JSON, so that an operator can read it with any Kafka tool."""
    return _ENCODER.encode(progress)


def decode_progress(value: bytes) -> Progress:
    """Inverse of :func:`encode_progress`.

    Raises:
        CodecError: the bytes are not a progress record; never skipped, since control data decides ownership.
    """
    try:
        return _DECODER.decode(value)
    except UNREADABLE as error:
        raise CodecError(f"not a progress record: {error}") from error
