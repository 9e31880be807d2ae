"""Runs a stage's operators over a batch: the context that they see, and what they give for each output topic.

A stateless operator judges each row by itself. When it raises on a batch (a cast that fails, an error in a user's
function), the batch is halved until the bad rows are alone; these go to the dead-letter topic, the others go on. One
bad row in a batch of n costs about 2·log2(n) more calls. Operators with state are called once: they handle their own
rows, and what they did before they raised can't be undone here.

Where a chain has a *gate*, just before its one operator with state, rows can be kept back until their key's state is
there. Nothing before the gate depends on state, so it may be run again for rows that a former owner has seen; its dead
letters are then given to whoever runs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import polars as pl

from statemgr.errors import StateError
from statemgr.state import TaskState
from towpath.errors import TowpathError
from towpath.operators.combine import Combine
from towpath.operators.files import MarkComplete
from towpath.operators.json_encode import encode_json
from towpath.operators.keyed import Keyed
from towpath.operators.lookup import Lookup
from towpath.operators.matching import Fit, InTime
from towpath.operators.merging import Merging
from towpath.operators.outbox import Outbox
from towpath.operators.rows import Explode, Filter, Keep, MapBatches, RequireKey, Select, WithColumns
from towpath.operators.timed import Timed
from towpath.operators.windows import AssignWindows, RequireEventTime
from towpath.query.plan import PARTITION, WATERMARK, Operator, StagePlan
from towpath.stage.metrics import StageMetrics

PASS = "pass"  # noqa: S105 - a name, not a secret
"""Name under which a stage without operators is measured."""

TOLD_ENTRIES = 20_000
"""Most timers that are looked at to tell a next owner the earliest of each bin: a few milliseconds of a release."""

STATELESS = (
    AssignWindows,
    Combine,
    Explode,
    Filter,
    Fit,
    InTime,
    Keep,
    Lookup,
    MapBatches,
    MarkComplete,
    RequireEventTime,
    RequireKey,
    Select,
    WithColumns,
)
"""Operators that may be given a part of a batch by itself, and again: what they make of it says the same."""


class RowLetters(Protocol):
    """Where rows go that can't be processed."""

    def row(self, partition: int, value: bytes, reason: str) -> None:
        """Set aside a row; see :meth:`towpath.stage.deadletter.DeadLetters.row`."""
        ...


def gate_of(operators: Sequence[Operator]) -> int | None:
    """Place of the one operator with state, if it names the entries that it needs and no other has side effects."""
    keyed = [index for index, operator in enumerate(operators) if isinstance(operator, Keyed)]
    others = [operator for operator in operators if not isinstance(operator, Keyed)]
    return keyed[0] if len(keyed) == 1 and all(isinstance(other, STATELESS) for other in others) else None


def merge_of(operators: Sequence[Operator]) -> tuple[int, Combine] | None:
    """Place of the first operator before which rows may be merged, and what merges them.

    None: there is none, or an operator before it depends on batches.
    """
    for index, operator in enumerate(operators):
        if isinstance(operator, Merging) and operator.merger is not None:
            return index, operator.merger
        if not isinstance(operator, STATELESS):
            return None
    return None


class OperatorChain:
    """The operators of one replica, made for one time of ownership; it is the context that they are given."""

    def __init__(
        self, plan: StagePlan, tasks: Mapping[int, TaskState], dead_letters: RowLetters, metrics: StageMetrics
    ) -> None:
        self.tasks = tasks
        self._operators = [(item.name, item.make()) for item in plan.operators]
        self._gate = gate_of([operator for _, operator in self._operators])
        self._timed = [operator for _, operator in self._operators if isinstance(operator, Timed)]
        self._merge = merge_of([operator for _, operator in self._operators])
        self._ways = [
            (output.topic, [(item.name, item.make()) for item in way])
            for output in plan.outputs
            if output.default
            for way in output.ways
        ]
        self._outboxes = [
            (place, name, operator)
            for place, (name, operator) in enumerate(self._operators)
            if isinstance(operator, Outbox)
        ]
        self._topics = {output.topic for output in plan.outputs}
        self._dead_letters = dead_letters
        self._metrics = metrics
        self._emitted: list[tuple[str, pl.DataFrame]] = []

    @property
    def first(self) -> str:
        """Name of the first operator."""
        return self._operators[0][0] if self._operators else PASS

    def run(self, frame: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
        """Process a batch.

        Returns:
            Topic and rows, in the order in which they are to be written.
        """
        return self._finish(self._operators, frame)

    def before_gate(self, frame: pl.DataFrame, letters: RowLetters) -> pl.DataFrame:
        """Run the operators that come before the gate; rows that they can't process go to ``letters``."""
        usual, self._dead_letters = self._dead_letters, letters
        try:
            return self._through(self._operators[: self._gate], frame)
        finally:
            self._dead_letters = usual

    def after_gate(self, frame: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
        """Run the operators from the gate on; result as of :meth:`run`."""
        return self._finish(self._operators[self._gate :], frame)

    def due(self, partition: int) -> int | None:
        """The earliest timer of a task, in ms of event time; None: there is none."""
        found = [operator.timers.of(partition, self).earliest for operator in self._timed]
        found += [operator.due(partition, self) for _, _, operator in self._outboxes]
        return min((each for each in found if each is not None), default=None)

    @property
    def timed(self) -> bool:
        """Whether some operator has timers, and so has to know the watermark at which each row came."""
        return bool(self._timed or self._outboxes)

    def timers(self, partition: int) -> dict[int, int] | None:
        """The earliest timer of each bin of a task's state that is here, or less; bins without one are left out.

        None: it can't be told, since entries of other bins are needed when one goes off.
        """
        if self._outboxes:
            return None
        found: dict[int, int] = {}
        for operator in self._timed:
            for bin_, time_ms in operator.timers.of(partition, self).by_bin(TOLD_ENTRIES).items():
                found[bin_] = min(time_ms, found.get(bin_, time_ms))
        return found

    def close(self, partition: int, watermark_ms: int, most: int) -> list[tuple[str, pl.DataFrame]]:
        """Let timers of a task go off that the watermark has reached; result as of :meth:`run`.

        Args:
            partition: of the task.
            watermark_ms: its watermark.
            most: about so many entries of state at once.
        """
        found: list[tuple[str, pl.DataFrame]] = []
        for place, (name, operator) in enumerate(self._operators):
            if isinstance(operator, Timed | Outbox):
                with self._metrics.operator(name, 0):
                    frame = operator.close(partition, watermark_ms, self, most)
                self._metrics.left(name, frame.height)
                if frame.height:
                    found += self._finish(self._operators[place + 1 :], frame)
        return found

    def held(self, partition: int) -> int | None:
        """A moment that the watermark of a task must not reach yet where it is sent on; None: nothing holds it."""
        found = [self.due(partition), *(operator.held(partition, self) for _, _, operator in self._outboxes)]
        return min((each for each in found if each is not None), default=None)

    @property
    def delivers(self) -> bool:
        """Whether some operator does something outside of Kafka; see :mod:`towpath.operators.outbox`."""
        return bool(self._outboxes)

    def ready(self, partition: int, now_s: float) -> bool:
        """Whether one of these operators has something to do for a task."""
        return any(operator.ready(partition, now_s, self) for _, _, operator in self._outboxes)

    def deliver(self, partition: int, now_s: float) -> list[tuple[str, pl.DataFrame]]:
        """Let them do something; result as of :meth:`run`."""
        found: list[tuple[str, pl.DataFrame]] = []
        for place, name, operator in self._outboxes:
            with self._metrics.operator(name, 0):
                frame = operator.deliver(partition, now_s, self)
            self._metrics.left(name, frame.height)
            found += self._finish(self._operators[place + 1 :], frame)
        return found

    @property
    def merges(self) -> bool:
        """Whether the chain has a place at which rows of many batches may be merged."""
        return self._merge is not None

    def merged(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Run the operators that come before that place, and merge what they give, as far as that is worth it."""
        place, merger = self._merging_place()
        frame = self._through(self._operators[:place], frame)
        with self._metrics.operator(self._operators[place][0], frame.height):
            return merger.process(frame, self)

    def after_merge(self, frame: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
        """Run the operators from that place on, on rows that :meth:`merged` gave; result as of :meth:`run`."""
        place, _ = self._merging_place()
        name, operator = self._operators[place]
        with self._metrics.operator(name, 0):  # its rows were counted when they were merged
            frame = self._process(name, operator, frame)
        self._metrics.left(name, frame.height)
        return self._finish(self._operators[place + 1 :], frame)

    @property
    def gate(self) -> Keyed | None:
        """The operator behind the gate; None: the chain has no gate."""
        operator = None if self._gate is None else self._operators[self._gate][1]
        return operator if isinstance(operator, Keyed) else None

    def _merging_place(self) -> tuple[int, Combine]:
        if self._merge is None:
            raise LookupError("the stage has no operator before which rows may be merged")
        return self._merge

    def _finish(self, operators: Sequence[tuple[str, Operator]], frame: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
        self._emitted = []
        frame = self._through(operators, frame)
        if WATERMARK in frame.columns:
            frame = frame.drop(WATERMARK)  # it has come to where nobody asks for it any more
        return self._emitted + [(topic, self._through(way, frame)) for topic, way in self._ways]

    def _through(self, operators: Sequence[tuple[str, Operator]], frame: pl.DataFrame) -> pl.DataFrame:
        for name, operator in operators:
            with self._metrics.operator(name, frame.height):
                frame = self._process(name, operator, frame)
            self._metrics.left(name, frame.height)
        return frame

    def dead_letter(self, partition: int, value: bytes, reason: str) -> None:
        """See :class:`towpath.query.plan.OperatorContext`."""
        self._dead_letters.row(partition, value, reason)

    def late(self, rows: int) -> None:
        """See :class:`towpath.query.plan.OperatorContext`."""
        self._metrics.late.inc(rows)

    def emit(self, topic: str, frame: pl.DataFrame) -> None:
        """See :class:`towpath.query.plan.OperatorContext`."""
        if topic not in self._topics:
            raise LookupError(f"the stage has no output {topic!r}; its outputs: {', '.join(sorted(self._topics))}")
        self._emitted.append((topic, frame))

    def _process(self, name: str, operator: Operator, frame: pl.DataFrame) -> pl.DataFrame:
        if not isinstance(operator, STATELESS):
            return operator.process(frame, self)
        try:
            return operator.process(frame, self)
        except (StateError, TowpathError):
            raise
        except (Exception, pl.exceptions.PanicException) as error:  # user code may raise anything
            if not frame.height:
                raise
            none = self._without_rows(operator, frame, error)
            return pl.concat([none, *self._bisect(name, operator, frame, error)])

    def _without_rows(self, operator: Operator, frame: pl.DataFrame, cause: BaseException) -> pl.DataFrame:
        """What the operator gives for no rows; if it fails even so, it is the operator that is wrong, not a row."""
        try:
            return operator.process(frame.clear(), self)
        except (Exception, pl.exceptions.PanicException):  # noqa: BLE001 - as above
            raise cause from None

    def _bisect(self, name: str, operator: Operator, frame: pl.DataFrame, error: BaseException) -> list[pl.DataFrame]:
        """Results of the parts that can be processed; rows that can't be become dead letters."""
        if frame.height == 1:
            self.dead_letter(frame.item(0, PARTITION), _readable(frame), f"{name}: {type(error).__name__}: {error}")
            return []
        half = frame.height // 2
        results: list[pl.DataFrame] = []
        for part in (frame.head(half), frame.tail(frame.height - half)):
            try:
                results.append(operator.process(part, self))
            except (StateError, TowpathError):
                raise
            except (Exception, pl.exceptions.PanicException) as again:  # noqa: BLE001 - user code may raise anything
                results += self._bisect(name, operator, part, again)
        return results


def _readable(row: pl.DataFrame) -> bytes:
    """A row as JSON; bytes, for which JSON has no form, in hexadecimal."""
    return encode_json(row.with_columns(pl.col(pl.Binary).bin.encode("hex")))[0]
