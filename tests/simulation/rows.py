"""Records of the simulated stream: several rows each, marks of event time from two upstream tasks.

A record as text::

    a 1200 k1+1190 k4-1210        upstream a, its watermark, rows: key, operation, event time
    b idle                        upstream b says that it has nothing for this partition

Operations: ``+`` counts the key up, ``-`` deletes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

IDLE = -1
"""Watermark of an upstream that says it is idle."""


class Row(NamedTuple):
    """One row of a record."""

    key: str
    delete: bool
    event_ms: int


@dataclass(frozen=True)
class Record:
    """One input record."""

    upstream: str
    mark_ms: int
    rows: tuple[Row, ...]


def encode_record(record: Record) -> bytes:
    """As bytes."""
    mark = "idle" if record.mark_ms == IDLE else str(record.mark_ms)
    rows = (f"{row.key}{'-' if row.delete else '+'}{row.event_ms}" for row in record.rows)
    return " ".join((record.upstream, mark, *rows)).encode()


def decode_record(value: bytes) -> Record:
    """Inverse of :func:`encode_record`."""
    upstream, mark, *rows = value.decode().split(" ")
    return Record(upstream, IDLE if mark == "idle" else int(mark), tuple(map(_row, rows)))


def _row(text: str) -> Row:
    key, sign, event = text.partition("-")
    if not sign:
        key, _, event = text.partition("+")
    return Row(key, bool(sign), int(event))


@dataclass(frozen=True)
class Output:
    """One row of the output: what became of an input row, or (``offset`` -1) a watermark.

    Attributes:
        offset: the input record's.
        row: the row's place in it.
        key: its key.
        count: the key's count after the row; 0 when it was deleted.
        late: whether it was late when it arrived.
        event_ms: its event time; of a watermark: the watermark.
    """

    offset: int
    row: int
    key: str
    count: int
    late: bool
    event_ms: int

    @property
    def is_mark(self) -> bool:
        """Whether this is a watermark."""
        return self.offset < 0


def encode_output(output: Output) -> bytes:
    """As bytes."""
    return (
        f"{output.offset} {output.row} {output.key or '.'} {output.count} {int(output.late)} {output.event_ms}".encode()
    )


def decode_output(value: bytes) -> Output:
    """Inverse of :func:`encode_output`."""
    offset, row, key, count, late, event = value.decode().split(" ")
    return Output(int(offset), int(row), "" if key == "." else key, int(count), late == "1", int(event))
