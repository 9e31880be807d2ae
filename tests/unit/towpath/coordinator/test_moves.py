"""The life of a move: legal steps only, read off the log and the heartbeats."""

from __future__ import annotations

import pytest

from statemgr.control.records import Strategy
from tests.unit.towpath.coordinator.facts_of import STAGE, Scene, assigned, beat, done, fenced, released, task, view_of
from towpath.coordinator.fleet import Fleet
from towpath.coordinator.moves import Move, Moves, Step
from towpath.errors import IllegalTransitionError


def prepared() -> Move:
    return Move(task(0), "a", "b", 2, "scale", Strategy.HYBRID, Step.PREPARE)


def step_after(*records: object, runs: bool = False) -> Step:
    """Where a hinted move from a to b stands after these records."""
    moves = Moves()
    moves.plan(prepared(), 1.0)
    fleet = Fleet(0.0)
    if runs:
        fleet.hear(STAGE, "b", beat(runs={0: 2}), 2.0)
    first = moves.get(task(0))
    assert first is not None
    moves.observe(view_of(*records), fleet, 2.0, [STAGE])
    return first.step


TAKEN = assigned(0, 2, "b", [("a", 1)], [("a", 1)])


@pytest.mark.parametrize(
    ("records", "runs", "step"),
    [
        ([assigned(0, 1, "a")], False, Step.PREPARE),
        ([TAKEN], False, Step.COMMITTED),
        ([TAKEN, released(0, 1, "a")], False, Step.RELEASED),
        ([TAKEN, fenced("a")], False, Step.RELEASED),
        ([fenced("a"), TAKEN], False, Step.COMMITTED),
        ([TAKEN, released(0, 1, "a")], True, Step.RUNNING),
        ([TAKEN, released(0, 1, "a"), done(0, 2, "b")], False, Step.DONE),
        ([TAKEN, assigned(0, 3, "c", [("a", 1), ("b", 2)])], False, Step.DROPPED),
    ],
)
def test_steps_are_read_off_the_log(records: list, runs: bool, step: Step) -> None:
    assert step_after(*records, runs=runs) is step


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Step.PREPARE, Step.RELEASED),
        (Step.DONE, Step.RUNNING),
        (Step.COMMITTED, Step.DROPPED),
        (Step.DROPPED, Step.DONE),
    ],
)
def test_a_step_that_the_picture_lacks_is_refused(before: Step, after: Step) -> None:
    move = prepared()
    move.step = before
    with pytest.raises(IllegalTransitionError, match=f"count/0 can't go from {before} to {after}"):
        move.to(after, 1.0)


def test_moves_that_a_former_coordinator_made_are_found_in_the_log() -> None:
    moves = Moves()
    moves.observe(view_of(TAKEN, assigned(1, 1, "a"), assigned(2, 2, "b"), done(2, 2, "b")), Fleet(0.0), 5.0, [STAGE])
    assert [(move.task, move.source, move.why, move.step) for move in moves] == [
        (task(0), "a", "found in the log", Step.COMMITTED)
    ]


def test_tasks_of_stages_that_the_query_has_no_longer_do_not_move() -> None:
    """Nobody is left who could ever end such a move."""
    moves = Moves()
    moves.observe(view_of(TAKEN), Fleet(0.0), 5.0, ["sum"])
    assert list(moves) == []


def test_a_move_that_is_overtaken_ends_as_superseded_and_the_next_is_followed() -> None:
    moves, fleet = Moves(), Fleet(0.0)
    moves.observe(view_of(TAKEN), fleet, 1.0, [STAGE])
    moves.observe(view_of(TAKEN, assigned(0, 3, "c", [("a", 1), ("b", 2)])), fleet, 2.0, [STAGE])
    assert [move.step for move in moves.ended] == [Step.SUPERSEDED]
    assert [(move.epoch, move.target) for move in moves] == [(3, "c")]


def test_a_quick_move_is_shown_with_its_reason() -> None:
    """From commit to done between two turns."""
    moves = Moves()
    moves.explain(TAKEN, "failure")
    moves.observe(view_of(TAKEN, fenced("a"), done(0, 2, "b")), Fleet(0.0), 1.0, [STAGE])
    assert [(move.why, move.step) for move in moves.ended] == [("failure", Step.DONE)]
    moves.observe(view_of(TAKEN, fenced("a"), done(0, 2, "b")), Fleet(0.0), 1.0, [STAGE])
    assert len(moves.ended) == 1


def test_one_who_leads_no_longer_forgets_what_it_only_hinted() -> None:
    moves = Moves()
    moves.plan(prepared(), 1.0)
    moves.forget_prepared(2.0)
    assert list(moves) == []


def test_what_runs_is_known_by_task_and_epoch() -> None:
    scene = Scene(TAKEN, released(0, 1, "a")).heard("b", beat(runs={0: 1}))
    scene.moves.observe(scene.view, scene.fleet, scene.now_s, scene.stages)
    assert [move.step for move in scene.moves] == [Step.RELEASED]
