"""When a cluster is at rest, and what its registries may hold then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from statemgr.layout import scratch_task
from statemgr.types import TaskId
from statemgr.watermarks import NEVER, OUT, REACHED
from tests.simulation.application import INPUT, STAGE
from towpath.stage.phases import Phase

if TYPE_CHECKING:
    from tests.simulation.machines import Life
    from tests.simulation.simulation import Simulation


def why_not_at_rest(simulation: Simulation) -> str | None:
    """What is still to be done; None: a running owner has processed every row, and sent every watermark on."""
    for task in simulation.tasks():
        history = simulation.watch.of(task)
        done = history.progress.inputs[INPUT].low if history.progress is not None else 0
        end = simulation.input_end(task.partition)
        if done < end:
            return f"{task} is processed up to {done} of {end}: {where(simulation, task)}"
        marks = history.progress.watermarks if history.progress is not None else {}
        if marks.get(OUT, NEVER) < marks.get(REACHED, NEVER):
            return f"{task} has come to {marks[REACHED]}, but has sent on {marks[OUT]}: {where(simulation, task)}"
        if not any(_runs(machine.life, task.partition) for machine in simulation.machines.values()):
            return f"nobody runs {task}: {where(simulation, task)}"
    return None


def where(simulation: Simulation, task: TaskId) -> str:
    """Who is at what."""
    lives = [machine.life for machine in simulation.machines.values() if machine.life is not None]
    shown = [
        f"{life.process.name} is {life.replica.phase}, {life.replica.work.what}, owns {sorted(life.replica.owned)}"
        for life in lives
    ]
    owners = simulation.watch.of(task).owners
    return f"assigned {owners}; " + ("; ".join(shown) or "no replica lives")


def _runs(life: Life | None, partition: int) -> bool:
    return life is not None and life.replica.phase is Phase.RUNNING and partition in life.replica.owned


def registry_differences(simulation: Simulation) -> Iterator[str]:
    """Whatever a replica keeps of tasks that it does not run, and partitions that are paused for nothing."""
    for name, machine in simulation.machines.items():
        life = machine.life
        if life is not None and life.replica.phase is Phase.RUNNING:
            for text in _leftovers(simulation, life):
                yield f"{name} {text}"


def _leftovers(simulation: Simulation, life: Life) -> Iterator[str]:
    owned = set(life.replica.owned)
    mine = {
        task.partition
        for task in simulation.tasks()
        if list(simulation.watch.of(task).owners.values())[-1:] == [life.process.name]
    }
    if owned != mine:
        yield f"runs {sorted(owned)}, by the log it owns {sorted(mine)}"
    consumer = life.replica._consumer
    read = {partition.partition for partition in consumer._positions}  # type: ignore[attr-defined]
    if read != owned:
        yield f"reads {sorted(read)}, but runs {sorted(owned)} (partitions left behind)"
    if consumer._paused:  # type: ignore[attr-defined]
        yield f"has paused {consumer._paused} for nothing"  # type: ignore[attr-defined]
    expected = {TaskId(STAGE, partition) for partition in owned}
    expected |= {scratch_task(task) for task in expected}
    extra = {task for task, _ in life.backend.open_stores()} - expected - _prepared(life)
    if extra:
        yield f"has stores of {sorted(map(str, extra))} open (stores left behind)"


def _prepared(life: Life) -> set[TaskId]:
    """Tasks that it prepares for, because it was asked to."""
    return set(life.coordinated._arrivals._preparations._prepared)
