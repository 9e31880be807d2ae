"""What a system has written, read to its end: the columns of the comparison, and where each output was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from bench.peers.expected import OUTPUT_FIELDS, WINDOW, comparable
from bench.peers.model import COUNTED, JOINED
from bench.peers.topics import Reader

_TOLD = 3


class Outputs:
    """The outputs of a run, read in steps.

    Attributes:
        topic: the sink.
    """

    def __init__(self, program: str, reader: Reader) -> None:
        self.topic = reader.topic
        self._program = program
        self._reader = reader
        self._fields = OUTPUT_FIELDS[program]
        self._parts: list[pl.DataFrame] = []

    def read_until(self, ends: Sequence[int]) -> None:
        """Take what a read_committed reader gets up to these offsets."""
        for messages in self._reader.until(ends):
            self._parts.append(parsed(messages, self._fields))

    @property
    def rows(self) -> pl.DataFrame:
        """Partition, offset and fields of every output, in reading order."""
        if not self._parts:
            return pl.DataFrame(schema={"partition": pl.Int32, "offset": pl.Int64, **self._fields})
        if len(self._parts) > 1:
            self._parts = [pl.concat(self._parts)]
        return self._parts[0]

    def complete(self, expected: pl.DataFrame) -> bool:
        """Whether so much is there that nothing more should come."""
        rows = asked_for(self.rows, expected)
        if self._program in JOINED:
            return rows.select(expected.columns).unique().height >= expected.height
        if self._program not in COUNTED:
            return rows.height >= expected.height
        return int(_latest(self._program, rows)["count"].sum() or 0) >= int(expected["count"].sum())


def asked_for(outputs: pl.DataFrame, expected: pl.DataFrame) -> pl.DataFrame:
    """Outputs without those of windows that the events do not end: some systems tell of them, others do not."""
    return outputs.filter(pl.col(WINDOW) <= expected[WINDOW].max()) if WINDOW in expected.columns else outputs


def _latest(program: str, outputs: pl.DataFrame) -> pl.DataFrame:
    return outputs.group_by(COUNTED[program]).agg(pl.col("count").max())


def differences(program: str, outputs: pl.DataFrame, expected: pl.DataFrame) -> str | None:
    """What is wrong with the outputs; None: nothing.

    Counts: the last of each key is the true one. Joins: the rows are the expected ones, whether told once or again.
    Otherwise: the rows are the expected ones, each as often as expected.
    """
    found = asked_for(outputs, expected)
    if program in COUNTED:
        found = _latest(program, found)
    elif program in JOINED:
        found = found.select(expected.columns).unique()
    ours, theirs = comparable(program, found), comparable(program, expected)
    if ours.equals(theirs):
        return None
    if ours.height != theirs.height:
        return f"{ours.height:,} rows where {theirs.height:,} are right"
    wrong = ours.hash_rows() != theirs.hash_rows()
    examples = ours.filter(wrong).head(_TOLD).rows()
    return f"{int(wrong.sum()):,} of {ours.height:,} rows are wrong, such as {examples}"


def parsed(messages: Sequence[Any], fields: dict[str, pl.DataType]) -> pl.DataFrame:
    """Partition, offset and fields of messages; those without a value are left out."""
    content = [(message.partition(), message.offset(), message.value()) for message in messages]
    kept = [row for row in content if row[2] is not None]
    values = pl.read_ndjson(b"\n".join(row[2] for row in kept), schema=fields) if kept else pl.DataFrame(schema=fields)
    return pl.DataFrame(
        {"partition": [row[0] for row in kept], "offset": [row[1] for row in kept]},
        schema={"partition": pl.Int32, "offset": pl.Int64},
    ).hstack(values)
