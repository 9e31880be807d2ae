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
from towpath.query.plan import PARTITION, OperatorContext

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

    A row for which the function raises goes to the dead-letter topic with the reason; its key's state and the other
    rows are as if it had not come. Rows that come out carry the reserved columns of the row they come from.
    """

    def __init__(self, keys: Sequence[str], function: RowFunction, schema: Mapping[str, Any], table: str) -> None:
        """``schema``: columns that come out; ``table``: name of the state table, under the key's text."""
        self._keys = list(keys)
        self._function = function
        self._schema = dict(schema)
        self._table = table

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        """Rows of any number of tasks → what the function gives."""
        reserved = [name for name in frame.columns if name.startswith("__")]
        schema = {**self._schema, **{name: frame.schema[name] for name in reserved}}
        outputs = [
            rows
            for part in frame.partition_by(PARTITION, maintain_order=True)
            for rows in self._process_task(part, reserved, context)
        ]
        return pl.DataFrame(outputs, schema=schema, orient="row")

    def _process_task(self, frame: pl.DataFrame, reserved: list[str], context: OperatorContext) -> list[Row]:
        partition = frame.item(0, PARTITION)
        table = context.tasks[partition].table(self._table)
        keys = key_bytes(frame, self._keys)
        distinct = list(dict.fromkeys(keys))
        values = dict(zip(distinct, table.get_many(distinct), strict=True))
        touched: set[bytes] = set()
        outputs: list[Row] = []
        for index, (key, row) in enumerate(zip(keys, frame.iter_rows(named=True), strict=True)):
            carried = {name: row.pop(name) for name in reserved}
            state = KeyState(values[key])
            try:
                rows = [{**_checked(out, self._schema), **carried} for out in self._function(row, state)]
            except Exception as error:  # noqa: BLE001  # user code may raise anything; the row is reported, not lost
                context.dead_letter(partition, encode_json(frame[index])[0], f"{type(error).__name__}: {error}")
                continue
            values[key] = state.value
            touched.add(key)
            outputs += rows
        table.put_many(list(touched), [values[key] for key in touched])
        return outputs


def _checked(row: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    unknown = row.keys() - schema.keys()
    if unknown:
        raise ValueError(f"the row has columns that the schema of process() lacks: {', '.join(sorted(unknown))}")
    return row
