"""What is decided from which facts."""

from __future__ import annotations

import pytest

from statemgr.control.records import Layer, Strategy, Tenure
from tests.unit.towpath.coordinator.facts_of import (
    LIMITS,
    STAGE,
    Scene,
    assigned,
    beat,
    desired,
    done,
    fenced,
    released,
    task,
)
from towpath.coordinator.decide import Assign, Drop, FailReplica, Plan, decide, stand_ins_of
from towpath.coordinator.moves import Move, Step


def two_each() -> list:
    """Four tasks, complete at a and b."""
    owners = {0: "a", 1: "a", 2: "b", 3: "b"}
    return [record for p, o in owners.items() for record in (assigned(p, 1, o), done(p, 1, o))]


def owners_of(decision: Assign | FailReplica) -> dict[int, str]:
    return {record.partition: record.owner for record in decision.records}


def hint(scene: Scene, partition: int, target: str, *, since: float = 0.1, alerted: float | None = 0.1) -> Move:
    """A move that was hinted ``since`` seconds ago and alerted ``alerted`` seconds ago."""
    known = scene.view.of(task(partition))
    strategy = scene.facts().manner(STAGE).strategy
    move = Move(task(partition), known.owner or "", target, known.epoch + 1, "scale", strategy, Step.PREPARE)
    scene.moves.plan(move, scene.now_s - since)
    move.alerted_s = None if alerted is None else scene.now_s - alerted
    return move


# --- first owners ---


def test_tasks_without_owner_are_assigned_once_replicas_have_gathered() -> None:
    scene = Scene().heard("a", joined=0.5).heard("b", joined=5.0)
    assert decide(scene.facts()) == []
    (decision,) = decide(Scene().all_heard("a", "b").facts())
    assert isinstance(decision, Assign)
    assert sorted(owners_of(decision).values()) == ["a", "a", "b", "b"]
    assert all((r.epoch, r.waits_for, r.layers) == (1, (), ()) for r in decision.records)


def test_nobody_is_waited_for_when_as_many_are_there_as_wanted() -> None:
    scene = Scene(desired(2)).heard("a", joined=0.1).heard("b", joined=0.1)
    assert isinstance(decide(scene.facts())[0], Assign)


def test_a_replica_that_has_not_read_its_own_fence_gets_nothing() -> None:
    scene = Scene(fenced("a"), fenced("a")).heard("a", beat(control_offset=1))
    assert decide(scene.facts()) == []
    assert decide(Scene(fenced("a")).heard("a", beat(control_offset=1)).facts()) != []


# --- planned moves ---


def test_a_new_replica_gets_its_share_by_hints_first() -> None:
    decisions = decide(Scene(*two_each()).all_heard("a", "b", "c").facts())
    assert [type(decision) for decision in decisions] == [Plan]
    (move,) = [decision.move for decision in decisions if isinstance(decision, Plan)]
    assert (move.target, move.epoch, move.step, move.why) == ("c", 2, Step.PREPARE, "scale")


def test_a_balanced_stage_is_left_alone() -> None:
    assert decide(Scene(*two_each()).all_heard("a", "b").facts()) == []


def test_a_hinted_move_is_logged_once_the_target_is_ready_and_the_source_knows() -> None:
    scene = Scene(*two_each()).all_heard("a", "b")
    scene.heard("c", beat(ready={0: 2}))
    move = hint(scene, 0, "c")
    assert decide(scene.facts()) == []
    move.told = True
    (decision,) = decide(scene.facts())
    assert isinstance(decision, Assign)
    (record,) = decision.records
    assert (record.owner, record.epoch) == ("c", 2)
    assert record.waits_for == (Tenure("a", 1),)
    assert record.layers == (Layer("a", 1),)


@pytest.mark.parametrize(
    ("since", "alerted", "logged"),
    [
        (LIMITS.prepare_timeout_s - 0.1, 3.0, False),
        (LIMITS.prepare_timeout_s, LIMITS.told_s - 0.1, False),
        (LIMITS.prepare_timeout_s, LIMITS.told_s, True),
    ],
)
def test_without_answers_a_hinted_move_is_logged_after_its_deadlines(
    since: float, alerted: float, logged: bool
) -> None:
    scene = Scene(*two_each()).all_heard("a", "b", "c")
    hint(scene, 0, "c", since=since, alerted=alerted)
    assert (decide(scene.facts()) != []) is logged


def test_a_copy_before_the_move_may_take_longer_unless_the_source_wants_to_leave() -> None:
    scene = Scene(desired(None, Strategy.PRECOPY), *two_each()).all_heard("a", "b", "c")
    hint(scene, 0, "c", since=LIMITS.drain_copy_s, alerted=3.0)
    assert not [decision for decision in decide(scene.facts()) if isinstance(decision, Assign)]
    scene.heard("a", beat(draining=True))
    assert [decision for decision in decide(scene.facts()) if isinstance(decision, Assign)]


def test_a_hinted_move_that_is_not_wanted_any_more_is_dropped() -> None:
    scene = Scene(desired(2), *two_each()).all_heard("a", "b", "c")
    hint(scene, 0, "c")
    assert decide(scene.facts()) == [Drop(task(0))]


def test_a_hinted_move_of_an_earlier_epoch_is_dropped() -> None:
    scene = Scene(*two_each()).all_heard("a", "b", "c")
    move = hint(scene, 0, "c")
    move.epoch = 1
    assert Drop(task(0)) in decide(scene.facts())


def test_fewer_replicas_keep_the_first_by_name() -> None:
    owners = ["count-2", "count-10", "count-1", "count-2"]
    records = [r for p, o in enumerate(owners) for r in (assigned(p, 1, o), done(p, 1, o))]
    scene = Scene(desired(2), *records).all_heard("count-1", "count-2", "count-10")
    moves = [decision.move for decision in decide(scene.facts()) if isinstance(decision, Plan)]
    assert [(move.source, move.target) for move in moves] == [("count-10", "count-1")]


def test_fewer_replicas_than_there_are_keep_those_that_own_something() -> None:
    scene = Scene(desired(1), assigned(0, 1, "z"), done(0, 1, "z"), partitions=1).all_heard("a", "z")
    assert decide(scene.facts()) == []


def test_a_draining_replica_is_rid_of_its_tasks() -> None:
    scene = Scene(*two_each()).heard("a").heard("b", beat(draining=True))
    moves = [decision.move for decision in decide(scene.facts()) if isinstance(decision, Plan)]
    assert [(m.source, m.target, m.why) for m in moves] == [("b", "a", "drain"), ("b", "a", "drain")]


def test_with_nobody_to_take_over_a_draining_replica_keeps_its_tasks() -> None:
    assert decide(Scene(*two_each()).heard("a", beat(draining=True)).heard("b", beat(draining=True)).facts()) == []


def test_a_task_with_three_copies_waits_until_it_is_complete() -> None:
    layers = [("x", 3), ("y", 2), ("z", 1)]
    record = assigned(0, 4, "a", [("x", 3)], layers)
    scene = Scene(record, released(0, 3, "x"), partitions=1).heard("a", beat(draining=True)).heard("b")
    assert decide(scene.facts()) == []
    scene = Scene(record, released(0, 3, "x"), done(0, 4, "a"), partitions=1)
    assert isinstance(decide(scene.heard("a", beat(draining=True)).heard("b").facts())[0], Plan)


def test_an_incomplete_task_takes_the_older_copies_along() -> None:
    record = assigned(0, 3, "a", [("x", 2)], [("x", 2), ("y", 1)])
    scene = Scene(record, released(0, 2, "x"), partitions=1).heard("a", beat(draining=True))
    scene.heard("b", beat(ready={0: 4}))
    hint(scene, 0, "b").told = True
    (decision,) = decide(scene.facts())
    assert isinstance(decision, Assign)
    assert decision.records[0].layers == (Layer("a", 3), Layer("x", 2), Layer("y", 1))


def test_a_task_whose_last_owner_has_not_ended_is_not_moved_again() -> None:
    scene = Scene(assigned(0, 2, "a", [("x", 1)], [("x", 1)]), partitions=1)
    scene.heard("a", beat(draining=True)).all_heard("x", "b")
    assert decide(scene.facts()) == []


def test_what_somebody_asked_for_moves_and_is_not_moved_back() -> None:
    scene = Scene(*two_each()).all_heard("a", "b")
    scene.pins[task(0)] = "b"
    plans = [decision.move for decision in decide(scene.facts()) if isinstance(decision, Plan)]
    assert (0, "b") in {(move.task.partition, move.target) for move in plans}


# --- strategies ---


def test_restart_gives_all_tasks_a_new_epoch_at_once_also_those_that_stay() -> None:
    scene = Scene(desired(None, Strategy.RESTART), *two_each()).all_heard("a", "b", "c")
    (decision,) = decide(scene.facts())
    assert isinstance(decision, Assign)
    assert {(r.partition, r.epoch, r.layers) for r in decision.records} == {(p, 2, ()) for p in range(4)}
    assert [r.owner for r in decision.records if r.partition == 2] == ["b"]
    assert decision.records[2].waits_for == (Tenure("b", 1),)


def test_restart_waits_for_what_is_under_way() -> None:
    moving = assigned(0, 2, "b", [("a", 1)])
    scene = Scene(desired(None, Strategy.RESTART), *two_each(), moving).all_heard("a", "b", "c")
    assert decide(scene.facts()) == []


def test_replay_takes_no_copies() -> None:
    scene = Scene(desired(None, Strategy.REPLAY), *two_each()).all_heard("a", "b").heard("c", beat(ready={0: 2}))
    hint(scene, 0, "c").told = True
    (decision,) = decide(scene.facts())
    assert isinstance(decision, Assign)
    assert decision.records[0].layers == ()


def test_a_stateless_stage_has_nothing_to_prepare() -> None:
    scene = Scene(*two_each(), stateful=False).all_heard("a", "b", "c")
    (decision,) = decide(scene.facts())
    assert isinstance(decision, Assign)
    assert [(r.owner, r.layers) for r in decision.records] == [("c", ())]


def test_a_standby_gets_the_task_that_it_has_a_copy_of() -> None:
    scene = Scene(desired(None, Strategy.STANDBY), *two_each()).all_heard("a", "b", "c")
    chosen = stand_ins_of(scene.facts(), scene.stages[STAGE])
    assert all(chosen[task(p)] != o for p, o in scene.facts().owners(STAGE).items())
    scene = Scene(desired(None, Strategy.STANDBY), *two_each()).heard("a", ago=10).all_heard("b", "c")
    scene.stand_ins = {task(0): "b", task(1): "c"}
    (decision,) = decide(scene.facts())
    assert isinstance(decision, FailReplica)
    assert owners_of(decision)[1] == "c"


# --- failures ---


@pytest.mark.parametrize("how", ["silent", "dead", "stopped", "absent"])
def test_tasks_of_a_replica_that_is_gone_go_to_the_others(how: str) -> None:
    scene = Scene(*two_each()).heard("b")
    if how != "absent":
        scene.heard("a", beat(phase="stopped" if how == "stopped" else "running"), ago=3.0 if how == "silent" else 0.1)
    if how == "dead":
        scene.fleet.died(STAGE, "a", scene.now_s)
    (decision,) = decide(scene.facts())
    assert isinstance(decision, FailReplica)
    assert decision.replica == "a"
    assert owners_of(decision) == {0: "b", 1: "b"}
    assert decision.records[0].layers == (Layer("a", 1),)
    assert decision.records[0].waits_for == (Tenure("a", 1),)


def test_one_that_was_not_heard_since_our_start_is_given_time() -> None:
    scene = Scene(*two_each()).heard("b")
    scene.fleet.begun_s = scene.now_s - LIMITS.absent_s + 0.1
    assert decide(scene.facts()) == []


def test_with_nobody_else_nothing_moves() -> None:
    scene = Scene(*two_each()).heard("a", ago=60).heard("b", ago=60)
    assert decide(scene.facts()) == []


def test_the_intent_of_a_former_coordinator_is_carried_on_by_a_fence() -> None:
    taken = [assigned(p, 2, "b", [("a", 1)], [("a", 1)]) for p in (0, 1)]
    scene = Scene(*two_each(), *taken).heard("a", ago=10).heard("b")
    assert decide(scene.facts()) == [FailReplica(STAGE, "a", "not heard for 3 s", ())]
    scene = Scene(*two_each(), *taken, fenced("a")).heard("a", ago=10).heard("b")
    assert decide(scene.facts()) == []


def test_a_replica_that_does_not_release_in_time_is_fenced_as_a_whole() -> None:
    scene = Scene(*two_each(), assigned(0, 2, "c", [("a", 1)], [("a", 1)])).all_heard("a", "b", "c")
    scene.waiting_since_s = scene.now_s - LIMITS.release_timeout_s + 0.1
    assert decide(scene.facts()) == []
    scene.waiting_since_s = scene.now_s - LIMITS.release_timeout_s
    (decision,) = decide(scene.facts())
    assert isinstance(decision, FailReplica)
    assert decision.replica == "a"
    assert list(owners_of(decision)) == [1]
    assert owners_of(decision)[1] != "a"


def test_only_the_oldest_owner_is_blamed_for_what_is_not_released() -> None:
    chain = assigned(0, 3, "c", [("a", 1), ("b", 2)], [("b", 2), ("a", 1)])
    scene = Scene(chain, partitions=1).all_heard("a", "b", "c")
    scene.waiting_since_s = scene.now_s - LIMITS.release_timeout_s
    assert [d.replica for d in decide(scene.facts()) if isinstance(d, FailReplica)] == ["a"]


def test_a_failed_newcomer_is_replaced_and_both_ends_are_waited_for() -> None:
    scene = Scene(assigned(0, 2, "b", [("a", 1)], [("a", 1)]), partitions=1).heard("a").heard("b", ago=10).heard("c")
    (decision,) = decide(scene.facts())
    assert isinstance(decision, FailReplica)
    (record,) = decision.records
    assert record.waits_for == (Tenure("a", 1), Tenure("b", 2))
    assert record.layers == (Layer("b", 2), Layer("a", 1))


def test_an_owner_that_has_ended_is_not_waited_for_again() -> None:
    """Its fence would not count for the new assignment, since it lies before it."""
    records = [assigned(0, 2, "b", [("a", 1)], [("a", 1)]), fenced("a")]
    scene = Scene(*records, partitions=1).heard("b", ago=10).heard("c")
    (decision,) = decide(scene.facts())
    assert isinstance(decision, FailReplica)
    assert decision.records[0].waits_for == (Tenure("b", 2),)


def test_a_failure_keeps_the_three_newest_copies() -> None:
    layers = [("x", 3), ("y", 2), ("z", 1)]
    scene = Scene(assigned(0, 4, "a", [("x", 3)], layers), released(0, 3, "x"), partitions=1)
    (decision,) = decide(scene.heard("a", ago=10).heard("b").facts())
    assert isinstance(decision, FailReplica)
    assert decision.records[0].layers == (Layer("a", 4), Layer("x", 3), Layer("y", 2))


def test_two_that_fail_together_are_not_given_to_each_other() -> None:
    scene = Scene(*two_each()).heard("a", ago=10).heard("b", ago=10).heard("c")
    decisions = decide(scene.facts())
    assert [owners_of(d) for d in decisions if isinstance(d, FailReplica)] == [{0: "c", 1: "c"}, {2: "c", 3: "c"}]


def test_with_restart_a_failure_restarts_the_whole_stage() -> None:
    scene = Scene(desired(None, Strategy.RESTART), *two_each()).heard("a", ago=10).heard("b")
    (decision,) = decide(scene.facts())
    assert isinstance(decision, FailReplica)
    assert owners_of(decision) == dict.fromkeys(range(4), "b")


def test_failures_come_first_and_moves_wait_for_the_next_turn() -> None:
    scene = Scene(*two_each()).heard("a", ago=10).all_heard("b", "c", "d")
    assert [type(decision) for decision in decide(scene.facts())] == [FailReplica]
