"""What of a record fits into a dead letter: the record may be larger than the dead-letter topic takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

REASON_BYTES = 2000
"""Most bytes of a header, the reason above all; a stack trace does not belong in a header."""

HEADER_COST_BYTES = 5
"""What a header costs beside its name and text: their lengths, two bytes each up to 8 KiB, and one spare."""

KEY_SHARE = 8
"""A key is cut to no less than this part of the room, however large the value is."""

_VALUE_CUT = "truncated_from_bytes"
_KEY_CUT = "key_truncated_from_bytes"

CUT_COST_BYTES = len(_VALUE_CUT) + len(_KEY_CUT) + 2 * (HEADER_COST_BYTES + 10)
"""What the two headers cost that say how large value and key were; a size in bytes has at most 10 digits."""


class Letter(NamedTuple):
    """A dead letter as it is written."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]


def fitted(key: bytes | None, value: bytes | None, headers: Mapping[str, str], limit: int) -> Letter:
    """Cut a dead letter to ``limit`` bytes of key, value and headers; further headers say what was cut.

    The value is kept first, and the key takes the rest. The reason stays whole unless it alone would be too large.

    Args:
        key: of the record.
        value: of the record.
        headers: origin and ``reason``; the reason is the only one that is cut for want of room.
        limit: most bytes, see :func:`towpath.stage.router.record_limit`.
    """
    texts = {name: _header(text, REASON_BYTES) for name, text in headers.items()}
    if "reason" in texts:
        spare = limit - _cost(texts) - CUT_COST_BYTES
        if spare < 0:
            texts["reason"] = _header(headers["reason"], max(0, len(texts["reason"]) + spare))
    room = max(0, limit - _cost(texts))
    sizes = len(key or b""), len(value or b"")
    if sum(sizes) > room:
        room = max(0, room - CUT_COST_BYTES)
    key_bytes, value_bytes = _shares(room, *sizes)
    if value is not None and value_bytes < len(value):
        texts[_VALUE_CUT] = str(len(value)).encode()
        value = value[:value_bytes]
    if key is not None and key_bytes < len(key):
        texts[_KEY_CUT] = str(len(key)).encode()
        key = key[:key_bytes]
    return Letter(key, value, list(texts.items()))


def _shares(room: int, key: int, value: int) -> tuple[int, int]:
    key = min(key, max(room // KEY_SHARE, room - value))
    return key, min(value, room - key)


def _cost(headers: Mapping[str, bytes]) -> int:
    return sum(len(name) + len(text) + HEADER_COST_BYTES for name, text in headers.items())


def _header(text: str, most_bytes: int) -> bytes:
    """At most so many bytes of UTF-8, whatever the text: a message of user code may hold half characters."""
    return text.encode(errors="replace")[:most_bytes].decode(errors="ignore").encode()
