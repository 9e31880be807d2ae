"""The gate before a keyed operator: rows of migrating tasks wait here until their key's state has come.

Used only for batches with records of a task that is migrating, or whose former owner left rows undone. Such a batch is
*numbered*: on the way to the gate ``__partition`` holds each row's number in the batch instead of its task, so that
every row and every dead letter can be traced to its record, and user code sees no column that is not there otherwise.
What comes before the gate depends on no state, so the number of the task means nothing to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from statemgr.layout import changelog_key, store_key
from statemgr.types import Position, TopicPartition
from statemgr.watermarks import NEVER
from towpath.operators.keyed import Keyed
from towpath.operators.timed import Timed
from towpath.query.plan import PARTITION
from towpath.stage.chain import OperatorChain
from towpath.stage.deadletter import DeadLetters
from towpath.stage.intake import Batch, Origin
from towpath.stage.parking import Admission, Parking
from towpath.stage.shelf import Earliest, FrameShelf, joined
from towpath.stage.tasks import OwnedTask

TAKEN_ROWS = 20_000
"""Rows of a task that are processed at once when their state has come: as many as the largest batch of records."""

_PREFIX_BYTES = len(store_key(changelog_key(0, b"")))


class Gate:
    """Holds the parked rows of a replica's tasks.

    Args:
        chain: operators, with a gate.
        keyed: the operator behind the gate.
        letters: where dead letters go.
    """

    def __init__(self, chain: OperatorChain, keyed: Keyed, letters: DeadLetters) -> None:
        self._chain = chain
        self._keyed = keyed
        self._letters = letters
        self._shelves: dict[int, tuple[Parking, FrameShelf]] = {}
        self._waited_for: dict[int, Earliest] = {}
        self._tasks: Mapping[int, OwnedTask] = {}

    @property
    def watched(self) -> Collection[int]:
        """Partitions of the tasks whose rows must be looked at."""
        return self._shelves.keys()

    def own(self, tasks: Mapping[int, OwnedTask]) -> None:
        """These are the tasks now; parked rows of others are forgotten: their owners read them again."""
        before, self._tasks, self._shelves = self._shelves, tasks, {}
        waited_for, self._waited_for = self._waited_for, {}
        for partition, task in tasks.items():
            if task.migrating and task.parking is None:
                task.parking = Parking()
            if task.parking is not None:
                kept = before.get(partition)
                same = kept is not None and kept[0] is task.parking
                self._shelves[partition] = kept if kept and same else (task.parking, FrameShelf())
                self._waited_for[partition] = waited_for[partition] if kept and same else Earliest()

    def settle(self) -> None:
        """Stop looking at tasks for which there is nothing left to do."""
        for partition, (parking, _) in list(self._shelves.items()):
            task = self._tasks[partition]
            if task.settle() and not task.behind and parking.idle(task.positions):
                task.parking = None
                del self._shelves[partition], self._waited_for[partition]

    def held(self, partition: int) -> int | None:
        """The event time before which nothing comes of a task's parked rows, in ms; None: it has none."""
        shelf = self._shelves.get(partition)
        if shelf is None or not shelf[0].rows:
            return None
        return self._waited_for[partition].value if isinstance(self._keyed, Timed) else NEVER

    def ready(self, partition: int) -> bool:
        """Whether parked rows of a task can go on."""
        shelf = self._shelves.get(partition)
        return shelf is not None and shelf[0].ready

    def enter(self, batch: Batch) -> tuple[pl.DataFrame | None, dict[TopicPartition, int]]:
        """Take a batch up to the gate.

        Returns:
            The rows that may pass, and for inputs that were not taken whole: the offset of the first record that was
            not.
        """
        stops: dict[TopicPartition, int] = {}
        frame = None
        if batch.frame is not None:
            frame, stops = self._sort_out(batch.frame, batch.origin())
        for message, reason in batch.poison:
            if self._fresh(TopicPartition(message.topic(), message.partition()), message.offset(), stops):
                self._letters.record(message, reason)
        return frame, stops

    def leave(self) -> list[pl.DataFrame]:
        """Parked rows whose state has come, to go on behind the gate; each frame before the next."""
        frames: list[pl.DataFrame] = []
        for partition, (parking, shelf) in self._shelves.items():
            tickets = parking.take(TAKEN_ROWS)
            if tickets:
                self._tasks[partition].touched = True
                self._waited_for[partition].remove(tickets)
                frames += shelf.take(tickets)
        return joined(frames)

    def _sort_out(self, frame: pl.DataFrame, origin: Origin) -> tuple[pl.DataFrame, dict[TopicPartition, int]]:
        letters = _Numbered()
        numbers = pl.Series(PARTITION, np.arange(frame.height, dtype=np.int32))
        frame = self._chain.before_gate(frame.with_columns(numbers), letters)
        number = frame.get_column(PARTITION).to_numpy()
        frame = frame.with_columns(pl.Series(PARTITION, origin.partition[number]))
        passes = np.ones(frame.height, np.bool_)
        stops: dict[TopicPartition, int] = {}
        for index, source in self._looked_at(origin):
            at = np.flatnonzero(origin.source[number] == index)
            positions = _positions(origin, number[at])
            admission = self._admit(source, frame[at], positions)
            passes[at] = False
            passes[at[np.asarray(admission.go, np.int64)]] = True
            if admission.stop is not None:
                stops[source] = admission.stop
        self._report(letters, origin, stops)
        return frame if passes.all() else frame.filter(passes), stops

    def _looked_at(self, origin: Origin) -> Iterator[tuple[int, TopicPartition]]:
        return ((index, source) for index, source in enumerate(origin.sources) if source.partition in self._shelves)

    def _admit(self, source: TopicPartition, rows: pl.DataFrame, positions: Sequence[Position]) -> Admission:
        """Decide about the rows of one input partition; those that must wait are put on the shelf."""
        task, (parking, shelf) = self._tasks[source.partition], self._shelves[source.partition]
        if not positions or task.state is None:
            return Admission(range(rows.height))
        table = task.state.table(self._keyed.state_table)
        keys = table.store_keys(self._keyed.state_keys(rows))
        admission = parking.admit(
            source.topic,
            keys,
            positions,
            lambda distinct: self._elsewhere(task, distinct),
            lambda: int(rows.estimated_size()) // rows.height,
        )
        if admission.park:
            parked = rows[list(admission.park)]
            shelf.put(admission.first_ticket, parked)
            if isinstance(self._keyed, Timed):
                self._waited_for[source.partition].put(admission.first_ticket, self._keyed.waits_for(parked))
        if admission.missing and task.migration is not None:
            task.migration.request(admission.missing)
        return admission

    def _elsewhere(self, task: OwnedTask, keys: list[bytes]) -> Collection[bytes]:
        """Store keys whose state is elsewhere."""
        if task.migration is None or task.state is None or not keys:
            return ()
        name = self._keyed.state_table
        missing = task.state.unresolved(name, [key[_PREFIX_BYTES:] for key in keys])
        return task.state.table(name).store_keys(missing)

    def _report(self, letters: _Numbered, origin: Origin, stops: Mapping[TopicPartition, int]) -> None:
        for number, value, reason in letters.rows:
            source = origin.sources[origin.source[number]]
            if self._fresh(source, int(origin.offset[number]), stops):
                self._letters.row(source.partition, value, reason)

    def _fresh(self, source: TopicPartition, offset: int, stops: Mapping[TopicPartition, int]) -> bool:
        """Whether a dead letter before the gate is new: nobody has written it before, and nobody will again."""
        shelf = self._shelves.get(source.partition)
        if shelf is not None and shelf[0].replayed(source.topic, offset):
            return False
        return source not in stops or offset < stops[source]


class _Numbered:
    """Dead letters of a numbered batch."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, bytes, str]] = []

    def row(self, partition: int, value: bytes, reason: str) -> None:
        """See :class:`towpath.stage.chain.RowLetters`; ``partition`` is the row's number."""
        self.rows.append((partition, value, reason))


def _positions(origin: Origin, number: npt.NDArray[np.int32]) -> list[Position]:
    return [Position(*at) for at in zip(origin.offset[number].tolist(), origin.row[number].tolist(), strict=True)]
