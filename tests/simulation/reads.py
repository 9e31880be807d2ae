"""Live reads, and what may be expected of them (R15, I8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from statemgr.errors import StateError
from statemgr.migration.ports import Found
from statemgr.sidecar.reads import Read
from statemgr.sidecar.service import StateService
from statemgr.types import TaskId
from tests.simulation.application import STAGE
from tests.simulation.case import entry_in_store
from tests.simulation.holders import Request, shown
from tests.simulation.state_managers import LEASE_S
from tests.simulation.world import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.simulation.machines import Machine
    from tests.simulation.simulation import Simulation

TIMEOUT_S = 0.5
"""Of one read."""


def read_live(simulation: Simulation, partition: int, number: int) -> None:
    """Ask every state manager for an entry of a task's state, and judge the answers when they come."""
    task = TaskId(STAGE, partition)
    key = simulation.case.entry(number, simulation.watch.of(task))
    for machine in simulation.machines.values():
        inbox = simulation.directory.inboxes.get(machine.manager.address)
        if inbox is not None:
            inbox(_request(simulation, machine, task, key))


def _request(simulation: Simulation, machine: Machine, task: TaskId, key: bytes) -> Request:
    history = simulation.watch.of(task)
    before = dict(history.confirmed)

    def ask(service: StateService) -> Read:
        return service.get(task, 0, [key], TIMEOUT_S)

    def judge(outcome: Callable[[], Read]) -> None:
        simulation.world.note("reader", f"{task} {key.decode()} from {machine.name}: {shown(outcome)}")
        try:
            read = outcome()
        except StateError:
            return
        text = wrong(simulation, task, key, read)
        if read.confirmed and not simulation.watch.anew:
            text = text or went_back(read, before)
            history.confirmed[read.epoch] = max(read.offset, history.confirmed.get(read.epoch, -1))
        if text:
            simulation.world.fail(SimulationError(f"{machine.name} on {task}, key {key.decode()}: {text} (I8)"))

    return Request(f"get {task} {key.decode()}", ask, judge)


def wrong(simulation: Simulation, task: TaskId, key: bytes, read: Read) -> str | None:
    """What is wrong with an answer; None if nothing is.

    Any answer must be what the changelog says as of the answer's own offset, unless it says that it does not know. A
    confirmed one must also be of an owner that was not replaced longer ago than the lease, and of a copy that has come
    to where the task stood when that owner began.
    """
    history = simulation.watch.of(task)
    if simulation.watch.anew:
        return None  # it may be of the changelog that was there before, until the owner is back
    found = read.found[0]
    expected = history.value_at(entry_in_store(key), read.offset)
    value = found if isinstance(found, bytes) else None
    if found is not Found.UNKNOWN and value != expected:
        return f"{found!r} as of offset {read.offset}, by the changelog {expected!r}"
    if read.confirmed and read.offset < history.began_at.get(read.epoch, 0):
        return f"confirmed as of offset {read.offset}; its owner began at {history.began_at.get(read.epoch, 0)}"
    replaced_s = history.owned_s.get(read.epoch + 1)
    now_s = simulation.world.now_s
    if read.confirmed and replaced_s is not None and now_s - replaced_s > LEASE_S + TIMEOUT_S:
        return f"confirmed for epoch {read.epoch}, which was replaced {now_s - replaced_s:.2f} s ago"
    return None


def went_back(read: Read, before: Mapping[int, int]) -> str | None:
    """Whether a confirmed answer is older than one that was confirmed before it was asked for (epoch → X)."""
    known = before.get(read.epoch, -1)
    if read.offset < known:
        return f"confirmed as of offset {read.offset}, after one as of {known}"
    return None
