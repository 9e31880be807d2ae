"""What operators are shown of moves: how far the state has come, when it will be there, and what has stalled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from statemgr.control.records import ControlRecord, Strategy
from tests.unit.towpath.coordinator.facts_of import STAGE, Scene, assigned, beat, desired, done, released, task
from towpath.coordinator.messages import Heartbeat, TaskReport
from towpath.coordinator.metrics import CoordinatorMetrics
from towpath.coordinator.moves import Move, Step
from towpath.coordinator.statuses import MigrationStatus
from towpath.coordinator.views import PATIENCE_S, migration_statuses, stage_status, stalled_moves

TAKEN = assigned(0, 2, "b", [("a", 1)], [("a", 1)])
RELEASED = [TAKEN, released(0, 1, "a")]


def on_its_way(state: str = "opening", epoch: int = 2, **progress: Any) -> Heartbeat:
    """A newcomer says how far it has come with task 0."""
    report = TaskReport(partition=0, epoch=epoch, state=state, complete=False, migration=progress or None)
    return beat().model_copy(update={"tasks": [report]})


def copies(epoch: int = 2, **progress: Any) -> Heartbeat:
    """A replica says how far it has come with a copy of task 0."""
    report = TaskReport(partition=0, epoch=epoch, state="copying", complete=False, migration=progress)
    return beat().model_copy(update={"copies": [report]})


class Watched:
    """Moves as an operator sees them, while time passes and the newcomer, b, goes on saying things."""

    def __init__(self, *records: ControlRecord) -> None:
        self.scene = Scene(*records)
        self.observe()

    def prepared(self, strategy: Strategy = Strategy.PRECOPY) -> Watched:
        self.scene.moves.plan(Move(task(0), "a", "b", 2, "scale", strategy, Step.PREPARE), self.scene.now_s)
        return self

    def observe(self) -> None:
        self.scene.moves.observe(self.scene.view, self.scene.fleet, self.scene.now_s, self.scene.stages)

    def passes(self, seconds: float, said: Heartbeat | None = None, *, by: str = "b") -> Watched:
        """Time passes, at the end of which b is heard; None: its loop is stuck, and it says what it said before."""
        self.scene.now_s += seconds
        known = self.scene.fleet.replicas.get((STAGE, by))
        self.scene.heard(by, said or (known.beat if known is not None else None))
        self.observe()
        return self

    @property
    def statuses(self) -> list[MigrationStatus]:
        return migration_statuses(self.scene.facts())

    @property
    def move(self) -> MigrationStatus:
        return self.statuses[0]


# --- how far ---


def test_a_copy_is_shown_while_it_is_prepared() -> None:
    seen = Watched(assigned(0, 1, "a")).prepared()
    seen.passes(1.0, copies(bins_done=64, bins_total=256, bytes=1000, rate=500.0))
    assert (seen.move.step, seen.move.progress, seen.move.left_s) == (
        "prepare", {"bins_done": 64, "bins_total": 256, "bytes": 1000, "rate": 500.0}, 6.0,
    )  # fmt: skip


def test_a_copy_for_another_epoch_or_at_another_replica_is_not_shown_for_a_move() -> None:
    seen = Watched(assigned(0, 1, "a")).prepared()
    seen.passes(1.0, copies(epoch=3, bins_done=1)).passes(0.0, copies(bins_done=1), by="c")
    assert seen.move.progress is None


def test_the_changelog_is_shown_while_it_is_read() -> None:
    seen = Watched(*RELEASED).passes(1.0, on_its_way(records=1000, remaining=3000, bytes=50_000, rate=10_000.0))
    assert (seen.move.step, seen.move.left_s) == ("released", 15.0)
    assert seen.move.progress is not None
    assert seen.move.progress["records"] == 1000


def test_a_standby_copy_in_the_making_is_shown_without_any_move() -> None:
    seen = Watched(assigned(0, 1, "a"), done(0, 1, "a"), desired(None, Strategy.STANDBY))
    seen.scene.stand_ins[task(0)] = "b"
    seen.passes(1.0, copies(bins_done=64, bins_total=256, bytes=1000, rate=500.0, elapsed_s=7.5))
    (shown,) = seen.statuses
    assert (shown.task, shown.source, shown.target, shown.epoch, shown.step, shown.why, shown.strategy) == (
        "count/0", "a", "b", 2, "copy", "standby", "standby",
    )  # fmt: skip
    assert (shown.active, shown.elapsed_s, shown.left_s) == (True, 7.5, 6.0)
    assert seen.passes(1.0, beat()).statuses == []


def test_a_standby_copy_that_a_move_waits_for_is_shown_once() -> None:
    seen = Watched(assigned(0, 1, "a"), desired(None, Strategy.STANDBY)).prepared(Strategy.STANDBY)
    seen.scene.stand_ins[task(0)] = "b"
    seen.passes(1.0, copies(bins_done=64))
    assert [shown.step for shown in seen.statuses] == ["prepare"]


# --- what has stalled ---


def test_an_owner_that_does_not_release_is_named() -> None:
    seen = Watched(TAKEN).passes(9.9)
    assert seen.move.stalled is None
    assert seen.passes(0.1).move.stalled == "a has not released it after 10 s"


def test_a_newcomer_that_does_not_run_it_is_named() -> None:
    seen = Watched(*RELEASED).passes(1.0, on_its_way("asking"))
    assert seen.passes(PATIENCE_S - 0.1).move.stalled is None
    assert seen.passes(0.1).move.stalled == "b does not run it, and nothing has come for 30 s (asking)"


def test_a_newcomer_that_says_nothing_of_it_is_named() -> None:
    assert Watched(*RELEASED).passes(PATIENCE_S).move.stalled == (
        "b does not run it, and nothing has come for 30 s (silent)"
    )


@pytest.mark.parametrize(
    "grows",
    [
        lambda n: {"records": n, "remaining": 5},
        lambda n: {"records": 5, "remaining": 100 - n},
        lambda n: {"bins_done": n, "bytes": 5},
        lambda n: {"bins_done": 5, "bytes": n},
    ],
)
def test_a_long_restore_has_not_stalled_while_it_goes_on(grows: Any) -> None:
    seen = Watched(*RELEASED)
    for number in range(20):
        progress: Mapping[str, int] = grows(number)
        assert seen.passes(PATIENCE_S / 2, on_its_way(**progress)).move.stalled is None
    assert seen.passes(PATIENCE_S).move.stalled == "b does not run it, and nothing has come for 30 s (opening)"


def test_a_state_that_changes_is_progress_and_its_rate_is_none() -> None:
    seen = Watched(*RELEASED).passes(PATIENCE_S - 1, on_its_way("opening", records=1, rate=1.0))
    seen.passes(PATIENCE_S - 1, on_its_way("filling", records=1, rate=2.0))
    assert seen.passes(2.0, on_its_way("filling", records=1, rate=3.0)).move.stalled is None
    assert seen.passes(PATIENCE_S, on_its_way("filling", records=1, rate=4.0)).move.stalled is not None


def test_a_copy_that_does_not_come_on_is_named_and_what_follows_is_said() -> None:
    seen = Watched(assigned(0, 1, "a")).prepared().passes(1.0, copies(phase="bins", bins_done=1))
    assert seen.passes(PATIENCE_S - 0.1).move.stalled is None
    assert seen.passes(0.1).move.stalled == (
        "b has not prepared it, and nothing has come for 30 s (bins); it moves without after 300 s"
    )
    assert seen.passes(1.0, copies(phase="bins", bins_done=2)).move.stalled is None


def test_a_target_that_says_nothing_of_its_copy_is_named() -> None:
    stalled = Watched(assigned(0, 1, "a")).prepared().passes(PATIENCE_S, beat()).move.stalled
    assert stalled == "b has not prepared it, and nothing has come for 30 s (silent); it moves without after 300 s"


def test_a_prepared_move_that_is_not_logged_is_named() -> None:
    seen = Watched(assigned(0, 1, "a")).prepared(Strategy.HYBRID).passes(PATIENCE_S, beat(ready={0: 2}))
    assert seen.move.stalled == "prepared, but not logged for 30 s; the coordinator's log and /health say why"


@pytest.mark.parametrize(
    "seen",
    [
        Watched(assigned(0, 1, "a")).prepared().passes(1.0, copies(stalled="no holder answers")),
        Watched(*RELEASED).passes(1.0, on_its_way("filling", stalled="no holder answers")),
        Watched(*RELEASED).passes(1.0, on_its_way("running", stalled="no holder answers")),
    ],
    ids=["copy", "arrival", "owner"],
)
def test_what_a_replica_is_stuck_in_is_passed_on(seen: Watched) -> None:
    assert seen.move.stalled == "no holder answers"


def test_a_move_that_has_ended_has_not_stalled() -> None:
    seen = Watched(*RELEASED, done(0, 2, "b")).passes(100.0, on_its_way("running", stalled="no holder answers"))
    assert [shown.stalled for shown in seen.statuses] == []
    assert stalled_moves(seen.scene.facts()) == []


def test_stalled_moves_are_counted_for_prometheus() -> None:
    metrics, seen = CoordinatorMetrics(), Watched(*RELEASED)

    def counted() -> float | None:
        metrics.refresh(seen.scene.facts(), leading=True)
        return metrics.registry.get_sample_value("towpath_moves_stalled", {"stage": STAGE})

    assert counted() == 0
    seen.passes(PATIENCE_S)
    assert counted() == 1
    assert [move.task for move in stalled_moves(seen.scene.facts())] == ["count/0"]


def test_prometheus_and_operators_are_told_the_same_number_of_incomplete_tasks() -> None:
    """A task that the log knows and that nobody owns yet is none."""
    scene, metrics = (
        Scene(assigned(0, 1, "a"), assigned(1, 1, "a"), done(1, 1, "a"), released(2, 1, "a")),
        CoordinatorMetrics(),
    )
    metrics.refresh(scene.facts(), leading=True)
    counted = metrics.registry.get_sample_value("towpath_tasks_incomplete", {"stage": STAGE})
    assert (counted, stage_status(scene.facts(), scene.stages[STAGE]).incomplete) == (1, 1)
