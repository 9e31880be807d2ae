"""Event-at-a-time code with timers: functions for rows and for timers of a key, and one value of state per key.

Timers are part of a key's entry of state, beside its value, so that they move with it. Those that the watermark had
reached when a row came go off before that row: what code sees is decided by the order of the input, wherever a batch
ends. Known as process functions, as in Flink.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec
import polars as pl

from statemgr.watermarks import NEVER
from towpath.operators.expiry import Expiry
from towpath.operators.json_encode import encode_json
from towpath.operators.keys import key_bytes, key_frame
from towpath.operators.process import KeyState, Row, as_frame, named
from towpath.operators.timed import came_at
from towpath.operators.timers import TaskTimers
from towpath.query.plan import PARTITION, RESERVED_PREFIX, WATERMARK, OperatorContext

V = TypeVar("V")


class TimedValue(msgspec.Struct, Generic[V], array_like=True, frozen=True):
    """What state has of a key.

    Attributes:
        value: of the user's code.
        timers: in ms of event time, ascending, each once.
        touched_ms: event time of the newest row or timer, where state goes away.
    """

    value: V | None = None
    timers: tuple[int, ...] = ()
    touched_ms: int | None = None


class KeyTimers:
    """The timers of one key; what the function sets is kept only if it returns without an exception."""

    def __init__(self, times: Iterable[int], watermark_ms: int, after_ms: int | None = None) -> None:
        """``after_ms``: timers must be later than that, since it is the one that goes off."""
        self._times = sorted(times)
        self._watermark_ms = watermark_ms
        self._after_ms = after_ms

    @property
    def times(self) -> tuple[int, ...]:
        """Timers that are set, ascending, in ms of event time."""
        return tuple(self._times)

    @property
    def watermark_ms(self) -> int | None:
        """How far event time had come when the row came; None: nobody has said yet."""
        return None if self._watermark_ms == NEVER else self._watermark_ms

    def set(self, time_ms: int) -> None:
        """Let a timer go off when the watermark reaches ``time_ms``; one that is set already is the same timer.

        Raises:
            TypeError: it is no whole number.
            ValueError: it is set by a timer and is not later than that.
        """
        if not isinstance(time_ms, int) or isinstance(time_ms, bool):
            raise TypeError(f"a timer is set to whole ms of event time, not to {time_ms!r}")
        if self._after_ms is not None and time_ms <= self._after_ms:
            raise ValueError(f"a timer at {time_ms} would go off again and again: {self._after_ms} goes off now")
        place = bisect_left(self._times, time_ms)
        if place == len(self._times) or self._times[place] != time_ms:
            insort(self._times, time_ms)

    def cancel(self, time_ms: int) -> None:
        """Let it not go off; one that is not set is no error."""
        if time_ms in self._times:
            self._times.remove(time_ms)


TimedRowFunction = Callable[[Row, KeyState, KeyTimers], Iterable[Mapping[str, Any]]]
"""``(row, state of its key, timers of its key) → rows``."""

TimerFunction = Callable[[Row, int, KeyState, KeyTimers], Iterable[Mapping[str, Any]]]
"""``(key columns, time of the timer in ms, state of the key, its other timers) → rows``."""


@dataclass(frozen=True)
class Code:
    """What a user has written.

    Attributes:
        on_row: for each row.
        on_timer: for each timer that goes off.
        expiry: when state goes away, timers included; None: never.
    """

    on_row: TimedRowFunction
    on_timer: TimerFunction
    expiry: Expiry | None = None


class TimedProcess:
    """Runs the functions, each key's rows in input order, and its timers where they belong among these.

    Rows and timers that fail go to the dead-letter topic, as with :class:`~towpath.operators.process.KeyedProcess`; a
    timer that failed does not go off again. Rows that come out carry the reserved columns of the row they come from;
    those of timers have none but the task.
    """

    def __init__(self, keys: Mapping[str, Any], code: Code, schema: Mapping[str, Any], table: str) -> None:
        """``keys``: key column → Polars type; ``schema``: columns that come out; ``table``: of :class:`TimedValue`."""
        self._keys = dict(keys)
        self._code = code
        self._schema = dict(schema)
        self.state_table = table
        self.timers = TaskTimers(table, lambda _, entry: self._due(entry))

    def state_keys(self, frame: pl.DataFrame) -> list[bytes]:
        """See :class:`towpath.operators.keyed.Keyed`."""
        return key_bytes(frame, list(self._keys))

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        """Rows of any number of tasks → what the functions give."""
        reserved = {name: dtype for name, dtype in frame.schema.items() if name.startswith(RESERVED_PREFIX)}
        found = [as_frame([], {**self._schema, **reserved})]
        for part in frame.partition_by(PARTITION, maintain_order=True):
            keys = self.state_keys(part)

            def rows(run: _Run, part: pl.DataFrame = part, keys: Sequence[bytes] = keys) -> None:
                for key, row in zip(keys, part.iter_rows(named=True), strict=True):
                    run.row(key, row)

            found.append(self._run(part.item(0, PARTITION), list(dict.fromkeys(keys)), reserved, rows, context))
        return pl.concat(found)

    def waits_for(self, rows: pl.DataFrame) -> pl.Series:
        """See :class:`towpath.operators.timed.Timed`."""
        return came_at(rows)

    def close(self, partition: int, watermark_ms: int, context: OperatorContext, most: int) -> pl.DataFrame:
        """What the functions give for timers that the watermark has reached."""
        keys = self.timers.of(partition, context).take(watermark_ms, most)

        def timers(run: _Run) -> None:
            left = most
            for key in keys:
                left -= run.until(key, watermark_ms, {PARTITION: partition}, left)

        return self._run(partition, keys, {PARTITION: pl.Int32()}, timers, context)

    def _run(
        self,
        partition: int,
        keys: list[bytes],
        reserved: Mapping[str, Any],
        visit: Callable[[_Run], None],
        context: OperatorContext,
    ) -> pl.DataFrame:
        """Visit keys, which changes nothing outside, and carry out what came of it."""
        table = context.tasks[partition].table(self.state_table)
        before = dict(zip(keys, table.get_many(keys), strict=True))
        schema = {**self._schema, **reserved}
        run = _Run(self._code, self._keys, self._schema, list(reserved), table.as_stored, dict(before))
        visit(run)
        try:
            found = as_frame(run.outputs, schema)
        except Exception:  # noqa: BLE001 - whatever Polars says of a value that a column can't hold
            checked = _Run(self._code, self._keys, self._schema, list(reserved), table.as_stored, dict(before))
            checked.check = lambda rows: as_frame(rows, schema)
            visit(checked)
            run, found = checked, as_frame(checked.outputs, schema)
        for value, reason in run.failed:
            context.dead_letter(partition, value, reason)
        changed = [key for key in keys if run.entries[key] is not before[key]]
        table.put_many(changed, [run.entries[key] for key in changed])
        timers = self.timers.of(partition, context)
        for key in keys:
            due = self._due(run.entries[key])
            if due is not None:
                timers.add(key, due)
        return found

    def _due(self, entry: TimedValue[Any] | None) -> int | None:
        """When an entry is to be looked at; None: never."""
        if entry is None:
            return None
        times = list(entry.timers[:1])
        if self._code.expiry is not None and entry.touched_ms is not None:
            times.append(self._code.expiry.due(entry.touched_ms))
        return min(times, default=None)


class _Run:
    """One pass over rows and timers of a task, without any effect outside.

    Attributes:
        entries: key → what state has of it by now.
        outputs: rows that came out.
        failed: each row or timer that failed, as JSON, and why.
        check: looks whether the rows of one call fit their columns; by default they are looked at together.
    """

    def __init__(
        self,
        code: Code,
        keys: Mapping[str, Any],
        schema: Mapping[str, Any],
        reserved: Sequence[str],
        as_stored: Callable[[bytes, Any], Any],
        entries: dict[bytes, TimedValue[Any] | None],
    ) -> None:
        self.entries = entries
        self.outputs: list[Row] = []
        self.failed: list[tuple[bytes, str]] = []
        self.check: Callable[[list[Row]], object] = len
        self._code = code
        self._keys = keys
        self._schema = schema
        self._reserved = reserved
        self._as_stored = as_stored

    def row(self, key: bytes, row: Row) -> None:
        """A row, after the timers that were due when it came."""
        carried = {name: row.pop(name) for name in self._reserved}
        watermark_ms = carried.get(WATERMARK, NEVER)
        self.until(key, watermark_ms, {name: carried[name] for name in (PARTITION, WATERMARK) if name in carried})
        entry = self.entries[key] or TimedValue()
        time = None if self._code.expiry is None else int(row[self._code.expiry.on])
        given = dict(row)
        try:
            self._call(key, entry, time, watermark_ms, None, carried, partial(self._code.on_row, row))
        except Exception as error:  # noqa: BLE001 - user code may raise anything; the row is reported, not lost
            self._fail({**given, **carried}, error)

    def until(self, key: bytes, watermark_ms: int, carried: Row, most: int | None = None) -> int:
        """Let timers of a key go off that a watermark has reached, and its state go away; gives how many went off."""
        fired = 0
        while (entry := self.entries[key]) is not None and (most is None or fired < most):
            timer = entry.timers[0] if entry.timers and entry.timers[0] <= watermark_ms else None
            if self._gone(entry, watermark_ms, timer):
                self.entries[key] = None
            elif timer is None:
                break
            else:
                fired += 1
                self._fire(key, entry, timer, watermark_ms, carried)
        return fired

    def _gone(self, entry: TimedValue[Any], watermark_ms: int, timer: int | None) -> bool:
        """Whether state goes away, before that timer."""
        expiry, touched_ms = self._code.expiry, entry.touched_ms
        if expiry is None or touched_ms is None:
            return False
        return expiry.gone(touched_ms, watermark_ms) and (timer is None or touched_ms + expiry.ttl_ms < timer)

    def _fire(self, key: bytes, entry: TimedValue[Any], timer: int, watermark_ms: int, carried: Row) -> None:
        left = TimedValue(entry.value, entry.timers[1:], entry.touched_ms)
        self.entries[key] = _kept(left)
        columns = key_frame([key], self._keys).row(0, named=True)
        time = None if self._code.expiry is None else timer
        filled = dict.fromkeys(self._reserved) | carried
        try:
            self._call(key, left, time, watermark_ms, timer, filled, partial(self._code.on_timer, columns, timer))
        except Exception as error:  # noqa: BLE001 - as with rows
            self._fail({**columns, "timer_ms": timer, PARTITION: carried[PARTITION]}, error)

    def _call(
        self,
        key: bytes,
        entry: TimedValue[Any],
        time: int | None,
        watermark_ms: int,
        after_ms: int | None,
        carried: Row,
        function: Callable[[KeyState, KeyTimers], Iterable[Mapping[str, Any]]],
    ) -> None:
        """Call user code with a key's entry, and take up what it has made of that."""
        state, timers = KeyState(entry.value), KeyTimers(entry.timers, watermark_ms, after_ms)
        rows = [{**named(out, self._schema), **carried} for out in function(state, timers)]
        touched = max((at for at in (entry.touched_ms, time) if at is not None), default=None)
        after = TimedValue(state.value, timers.times, touched)
        if (state.value is not None and state.value is not entry.value) or timers.times != entry.timers:
            after = self._as_stored(key, after)
        self.check(rows)
        self.outputs += rows
        if after != entry:
            self.entries[key] = _kept(after)

    def _fail(self, row: Row, error: Exception) -> None:
        shown = {name: value for name, value in row.items() if name != WATERMARK}
        self.failed.append((encode_json(pl.DataFrame([shown]))[0], f"{type(error).__name__}: {error}"))


def _kept(entry: TimedValue[Any]) -> TimedValue[Any] | None:
    """The entry, unless there is nothing in it that has to be kept."""
    return None if entry.value is None and not entry.timers else entry
