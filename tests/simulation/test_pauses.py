"""I7 in the simulation: planned moves alone break nothing of it, and whoever breaks it is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.run import Failure, run_seed
from tests.simulation.schedule import PLANNED_MOVES, Schedule, plan
from towpath.stage.coordinated import Coordinated
from towpath.stage.replica import Replica
from towpath.stage.tasks import OwnedTask

_let_go = Replica._let_go


def planned(most: int) -> Iterator[tuple[int, Schedule]]:
    """Seeds with nothing but planned moves."""
    for seed in range(most):
        schedule = plan(seed, PLANNED_MOVES)
        if schedule.only_planned:
            yield seed, schedule


def complaints(most: int) -> Iterator[str]:
    """What is found wrong with planned moves."""
    for seed, schedule in planned(most):
        try:
            run_seed(seed, schedule=schedule)
        except Failure as failure:
            yield str(failure).splitlines()[-1]


def pause_the_rest(self: Replica, coordinated: Coordinated, task: OwnedTask) -> None:
    """All other tasks rest when one leaves."""
    _let_go(self, coordinated, task)
    self._consumer.pause([source for other in self._tasks.values() for source in other.offsets()])


def stand_still(self: Replica, coordinated: Coordinated, task: OwnedTask) -> None:
    """A release takes its time, and everybody waits for it."""
    _let_go(self, coordinated, task)
    self._controls.pause(0.6)


def lose_all(self: Replica, coordinated: Coordinated, task: OwnedTask) -> None:
    """A release takes so long that the replica is taken for dead."""
    _let_go(self, coordinated, task)
    self._controls.pause(3.0)


def test_there_are_enough_of_them() -> None:
    assert len(list(planned(30))) >= 10


@pytest.mark.slow
def test_planned_moves_pause_no_other_task_and_fence_nobody() -> None:
    assert list(complaints(30)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        (pause_the_rest, "(I7)"),
        (stand_still, "but does not move (I7)"),
        (lose_all, "though only planned moves have happened (R5, I7)"),
    ],
)
def test_whoever_breaks_it_is_found(fault: object, complaint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Replica, "_let_go", fault)
    assert any(complaint in found for found in complaints(16))
