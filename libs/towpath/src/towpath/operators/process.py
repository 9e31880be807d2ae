"""Event-at-a-time code on a keyed stream: a function per row, with one value of state per key.

Slower than the columnar operators by one to two orders of magnitude; for what they can't express.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import polars as pl

from towpath.operators.json_encode import encode_json
from towpath.operators.keys import key_bytes
from towpath.query.plan import PARTITION, RESERVED_PREFIX, OperatorContext

Row = dict[str, Any]


class KeyState:
    """The value of one key; what the function sets is kept only if it returns without an exception."""

    def __init__(self, value: Any) -> None:
        self._value = value

    @property
    def value(self) -> Any:
        """The value itself, to be stored; None if there is none."""
        return self._value

    def get(self, default: Any = None) -> Any:
        """The value, or ``default`` if there is none. A list, dict or struct is a copy: change it and set it."""
        return default if self._value is None else deepcopy(self._value)

    def set(self, value: Any) -> None:
        """Replace the value; None deletes it."""
        self._value = value

    def delete(self) -> None:
        """Delete the value."""
        self._value = None


RowFunction = Callable[[Row, KeyState], Iterable[Mapping[str, Any]]]
"""``(row, state of its key) → rows``; a row is a dict of the columns without the reserved ones."""


class KeyedProcess:
    """Runs a :data:`RowFunction` on each row in input order.

    A row for which the function raises, or gives a value that its column or the state can't hold, goes to the
    dead-letter topic with the reason; its key's state and the other rows are as if it had not come. Rows that come out
    carry the reserved columns of the row they come from.

    Columns are checked for a whole batch at once. Only when one can't be made, the batch is run again with each row
    checked by itself, to find the row that is to blame.
    """

    def __init__(self, keys: Sequence[str], function: RowFunction, schema: Mapping[str, Any], table: str) -> None:
        """``schema``: columns that come out; ``table``: name of the state table, under the key's text."""
        self._keys = list(keys)
        self._function = function
        self._schema = dict(schema)
        self.state_table = table

    @property
    def schema(self) -> Mapping[str, Any]:
        """Columns that come out."""
        return self._schema

    def by(self, function: RowFunction) -> KeyedProcess:
        """The same operator with another function."""
        return KeyedProcess(self._keys, function, self._schema, self.state_table)

    def state_keys(self, frame: pl.DataFrame) -> list[bytes]:
        """See :class:`towpath.operators.keyed.Keyed`."""
        return key_bytes(frame, self._keys)

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        """Rows of any number of tasks → what the function gives."""
        reserved = {name: dtype for name, dtype in frame.schema.items() if name.startswith(RESERVED_PREFIX)}
        none = as_frame([], {**self._schema, **reserved})
        parts = frame.partition_by(PARTITION, maintain_order=True)
        return pl.concat([none, *(self._process_task(part, reserved, context) for part in parts)])

    def _process_task(self, frame: pl.DataFrame, reserved: Mapping[str, Any], context: OperatorContext) -> pl.DataFrame:
        partition = frame.item(0, PARTITION)
        table = context.tasks[partition].table(self.state_table)
        keys = key_bytes(frame, self._keys)
        distinct = list(dict.fromkeys(keys))
        before = dict(zip(distinct, table.get_many(distinct), strict=True))
        schema = {**self._schema, **reserved}
        run = _Run(self._function, self._schema, list(reserved), table.as_stored)
        run.over(frame, keys, dict(before))
        try:
            result = as_frame(run.outputs, schema)
        except Exception:  # noqa: BLE001  # whatever Polars says of a value that a column can't hold
            run = _Run(
                self._function, self._schema, list(reserved), table.as_stored, check=lambda rows: as_frame(rows, schema)
            )
            run.over(frame, keys, dict(before))
            result = pl.concat([as_frame([], schema), *run.checked])
        for index, reason in run.failed:
            context.dead_letter(partition, encode_json(frame[index])[0], reason)
        table.put_many(list(run.changed), list(run.changed.values()))
        return result


class _Run:
    """One pass of the function over the rows of a task, without any effect outside.

    Attributes:
        outputs: rows that came out, unless they are checked one by one.
        checked: the same as frames, if they are.
        changed: key → new value of its state.
        failed: index of each row that failed, and why.
    """

    def __init__(
        self,
        function: RowFunction,
        schema: Mapping[str, Any],
        reserved: Sequence[str],
        as_stored: Callable[[bytes, Any], Any],
        check: Callable[[list[Row]], pl.DataFrame] | None = None,
    ) -> None:
        self.outputs: list[Row] = []
        self.checked: list[pl.DataFrame] = []
        self.changed: dict[bytes, Any] = {}
        self.failed: list[tuple[int, str]] = []
        self._function = function
        self._schema = schema
        self._reserved = reserved
        self._as_stored = as_stored
        self._check = check

    def over(self, frame: pl.DataFrame, keys: Sequence[bytes], values: dict[bytes, Any]) -> None:
        """Run over all rows; ``values`` holds the state of their keys, and is used up."""
        for index, (key, row) in enumerate(zip(keys, frame.iter_rows(named=True), strict=True)):
            try:
                values[key] = self._row(row, key, values[key])
            except Exception as error:  # noqa: BLE001  # user code may raise anything; the row is reported, not lost
                self.failed.append((index, f"{type(error).__name__}: {error}"))
            else:
                self.changed[key] = values[key]

    def _row(self, row: Row, key: bytes, value: Any) -> Any:
        carried = {name: row.pop(name) for name in self._reserved}
        state = KeyState(value)
        rows = [{**named(out, self._schema), **carried} for out in self._function(row, state)]
        replaced = state.value is not None and state.value is not value
        kept = self._as_stored(key, state.value) if replaced else state.value
        if self._check is None:
            self.outputs += rows
        else:
            self.checked.append(self._check(rows))
        return kept


def as_frame(rows: list[Row], schema: Mapping[str, Any]) -> pl.DataFrame:
    """Rows as a frame of these columns."""
    return pl.DataFrame(rows, schema=dict(schema), orient="row")


def named(row: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The row, if the schema has all its columns."""
    unknown = row.keys() - schema.keys()
    if unknown:
        raise ValueError(f"the row has columns that the schema of process() lacks: {', '.join(sorted(unknown))}")
    return row
