"""The first bytes of a record in the registry's wire format, and what makes a record unreadable."""

from __future__ import annotations

MAGIC = 0
HEADER_BYTES = 5
"""Magic byte and schema id."""


class NotReadableError(ValueError):
    """A record can't be read, now or ever: it goes to the dead-letter topic with this text."""


class UnknownSchemaError(NotReadableError):
    """The registry has no such schema."""


def schema_id_of(value: bytes | None) -> int:
    """Id of the schema with which a record was written.

    Raises:
        NotReadableError: it is no record in this format.
    """
    if value is None:
        raise NotReadableError("the record has no value (a tombstone)")
    if len(value) <= HEADER_BYTES or value[0] != MAGIC:
        begin = value[:HEADER_BYTES].hex(" ")
        raise NotReadableError(
            f"the record has no schema id: it has {len(value)} bytes and begins with {begin or 'nothing'}, where a "
            "record written with a schema registry has a zero byte, the id in four bytes, and data"
        )
    return int.from_bytes(value[1:HEADER_BYTES], "big")
