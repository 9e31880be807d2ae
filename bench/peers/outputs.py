"""What a system has written, read to its end: the columns of the comparison, and where each output was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from bench.peers.expected import OUTPUT_FIELDS, comparable
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
        rows = self.rows
        if self._program != "count":
            return rows.height >= expected.height
        latest = rows.group_by("auction").agg(pl.col("count").max())
        return int(latest["count"].sum() or 0) >= int(expected["count"].sum())


def differences(program: str, outputs: pl.DataFrame, expected: pl.DataFrame) -> str | None:
    """What is wrong with the outputs; None: nothing.

    Counts: the last of each key is the true one. Otherwise: the rows are the expected ones, each as often as expected.
    """
    found = outputs
    if program == "count":
        found = outputs.group_by("auction").agg(pl.col("count").max())
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
