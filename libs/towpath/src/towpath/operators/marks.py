"""Watermarks in band: records of an inner edge that say how far event time has come in the tasks of a stage.

::

    record value = "TPW1" + JSON {"tasks": number of the stage's tasks, "marks": {task: ms}}
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from statemgr.codecs import UNREADABLE
from statemgr.errors import CodecError

MAGIC = b"TPW1"


class Marks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a replica says of its tasks.

    Attributes:
        tasks: how many tasks the stage has, those of other replicas included.
        marks: task → nothing earlier than this comes from it any more, in ms of event time;
            :data:`statemgr.watermarks.IDLE`: nothing at all until it says otherwise.
    """

    tasks: int
    marks: Mapping[int, int]


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Marks)


def encode_marks(marks: Marks) -> bytes:
    """The record's value."""
    return MAGIC + _ENCODER.encode(marks)


def decode_marks(value: bytes | None) -> Marks | None:
    """Inverse of :func:`encode_marks`; None: it is a record of rows.

    Raises:
        CodecError: it begins like marks and is none.
    """
    if value is None or not value.startswith(MAGIC):
        return None
    try:
        return _DECODER.decode(value[len(MAGIC) :])
    except UNREADABLE as error:
        raise CodecError(f"the record of an inner edge holds no watermarks: {error}") from error
