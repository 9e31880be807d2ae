"""I7: a planned move pauses only the tasks that move.

Two things are looked at. After every commit of a replica: it reads every task that it owns, and none of them rests but
for rows that wait for state on its way (R1). And where nothing happens but planned moves: nobody is fenced (R5), and
the rows of a task that stays are processed as soon as ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from statemgr.types import TaskId, TopicPartition
from tests.simulation.application import INPUT

if TYPE_CHECKING:
    from tests.simulation.invariants import LogWatch
    from tests.simulation.machines import Life
    from tests.simulation.simulation import Simulation

MOST_WAIT_S = 0.3
"""Longest time from a row's arrival to its commit in a task that stays; 0.2 s were not seen. A replica commits every
40 ms, and each of some 50 calls of a turn takes up to 4 ms in a world that is slow."""

SETTLING_S = 0.3
"""For so long after its state is complete a task still counts as moving: rows may wait in its backlog."""

EVERY_S = 0.1
"""Between two looks at the rows that wait."""


def resting_for_nothing(life: Life) -> Iterator[str]:
    """Inputs of owned tasks that are not read, though nothing is on its way for which they would have to wait."""
    consumer = life.replica._consumer
    for task in life.replica.owned.values():
        for source in task.offsets():
            if source not in consumer._positions:  # type: ignore[attr-defined]
                yield f"{life.process.name} owns {task.id}@{task.epoch}, but does not read {source}"
            elif source in consumer._paused and task.parking is None:  # type: ignore[attr-defined]
                yield f"{life.process.name} has paused {source}, but no row of {task.id}@{task.epoch} waits"


class Arrivals:
    """When the records of the input arrived."""

    def __init__(self) -> None:
        self._arrived_s: dict[int, list[float]] = {}

    def add(self, partition: int, at_s: float) -> None:
        """One more."""
        self._arrived_s.setdefault(partition, []).append(at_s)

    def at_s(self, partition: int, offset: int) -> float | None:
        """When the record at an offset arrived; None: it has not."""
        arrived = self._arrived_s.get(partition, [])
        return arrived[offset] if offset < len(arrived) else None


def waiting_in_vain(simulation: Simulation, arrivals: Arrivals) -> Iterator[str]:
    """Rows that have waited too long in tasks that stay."""
    now_s = simulation.world.now_s
    for task in simulation.tasks():
        progress = simulation.watch.of(task).progress
        if progress is None or not stays(simulation.watch, task, now_s):
            continue
        arrived_s = arrivals.at_s(task.partition, progress.inputs[INPUT].low)
        settled_s = simulation.watch.of(task).done_s + SETTLING_S
        if arrived_s is not None and now_s - max(arrived_s, settled_s) > MOST_WAIT_S:
            yield f"{TopicPartition(INPUT, task.partition)} has waited for {now_s - arrived_s:.2f} s, but does not move"


def stays(watch: LogWatch, task: TaskId, now_s: float) -> bool:
    """Whether a task is not on its way anywhere."""
    history = watch.of(task)
    newest = max(history.owners, default=0)
    return history.done >= newest > 0 and now_s - history.done_s > SETTLING_S
