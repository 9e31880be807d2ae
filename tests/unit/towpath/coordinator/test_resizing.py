"""How many replicas the platform is to run, and which of them own tasks: pure decisions."""

from __future__ import annotations

import pytest

from tests.unit.towpath.coordinator.facts_of import LIMITS, STAGE, Scene, assigned, beat, desired, done, released
from towpath.coordinator.metrics import CoordinatorMetrics
from towpath.coordinator.platform import Platform, ordinal
from towpath.coordinator.resizing import Over, Request, Resize, decide_size, observe_request
from towpath.coordinator.views import stage_status

THREE = [assigned(0, 1, "count-0"), assigned(1, 1, "count-1"), assigned(2, 1, "count-2"), assigned(3, 1, "count-0")]
ALL_AT_0 = [assigned(partition, 1, "count-0") for partition in range(4)]


def scene(*records, size: int | None = 3, replicas: tuple[str, ...] = ("count-0", "count-1", "count-2")) -> Scene:
    made = Scene(*records).all_heard(*replicas)
    made.platform = Platform({} if size is None else {STAGE: size})
    return made


def decide(made: Scene, request: Request | None = None) -> Resize | Over | None:
    facts = made.facts()
    seen = observe_request(facts, STAGE, request)
    return None if seen is None else decide_size(facts, STAGE, seen)


@pytest.mark.parametrize(("name", "number"), [("count-12", 12), ("a-1-0", 0), ("count", None), ("count-x", None)])
def test_a_replica_s_number_is_what_follows_the_last_hyphen(name: str, number: int | None) -> None:
    assert ordinal(name) == number


def test_nothing_asked_for_leaves_the_platform_alone() -> None:
    assert decide(scene(*THREE)) is None
    assert decide(scene(*THREE, desired(None))) is None


def test_a_platform_that_has_not_said_how_many_it_runs_is_not_told_anything() -> None:
    assert decide(scene(*THREE, desired(5), size=None)) is None


def test_more_are_asked_for_at_once() -> None:
    assert decide(scene(*THREE, desired(5))) == Resize(STAGE, 3, 5)


def test_as_many_as_asked_for_ends_the_request() -> None:
    assert decide(scene(*THREE, desired(3))) == Over(STAGE, 3, done=True)


def test_a_number_that_somebody_else_sets_meanwhile_ends_the_request() -> None:
    assert decide(scene(*THREE, desired(5), size=4), Request(5, 3, 0.0)) == Over(STAGE, 5, done=False)


def test_a_new_request_is_measured_from_the_number_that_it_found() -> None:
    assert decide(scene(*THREE, desired(5), size=4), Request(1, 3, 0.0)) == Resize(STAGE, 4, 5)


def test_who_owns_tasks_is_not_taken_away_however_long_that_takes() -> None:
    made = scene(*THREE, desired(1))
    assert decide(made, Request(1, 3, made.now_s - 10 * LIMITS.copy_timeout_s)) is None


def test_who_has_not_let_go_yet_is_not_taken_away() -> None:
    taken = [*ALL_AT_0[:3], assigned(3, 2, "count-0", waits_for=[("count-2", 1)])]
    assert decide(scene(*taken, desired(1))) is None
    assert decide(scene(*taken, released(3, 1, "count-2"), desired(1))) == Resize(STAGE, 3, 1)


def test_whose_state_is_still_needed_is_kept_as_long_as_a_copy_may_take() -> None:
    moved = assigned(3, 2, "count-0", layers=[("count-2", 1)])
    made = scene(*ALL_AT_0[:3], moved, desired(1))
    assert decide(made, Request(1, 3, made.now_s - LIMITS.copy_timeout_s + 1)) is None
    assert decide(made, Request(1, 3, made.now_s - LIMITS.copy_timeout_s)) == Resize(STAGE, 3, 1)
    assert decide(scene(*ALL_AT_0[:3], moved, done(3, 2, "count-0"), desired(1))) == Resize(STAGE, 3, 1)


def test_state_that_a_kept_replica_holds_is_no_reason_to_wait() -> None:
    moved = assigned(3, 2, "count-0", layers=[("count-1", 1)])
    assert decide(scene(*ALL_AT_0[:3], moved, desired(2))) == Resize(STAGE, 3, 2)


def test_the_lowest_numbers_own_tasks_whoever_owns_them_now() -> None:
    """What a launcher would keep, the owners, a StatefulSet may take away."""
    owners = [assigned(partition, 1, "count-2") for partition in range(4)]
    assert scene(*owners, desired(1)).facts().members(STAGE) == ["count-0"]
    launched = scene(*owners, desired(1), size=None)
    assert launched.facts().members(STAGE) == ["count-2"]


def test_who_is_about_to_be_taken_away_loses_its_tasks_before_it_says_so() -> None:
    assert scene(*THREE, size=2).facts().members(STAGE) == ["count-0", "count-1"]


def test_a_kept_replica_that_is_not_there_is_not_replaced_by_one_that_goes() -> None:
    assert scene(*THREE, size=2, replicas=("count-1", "count-2")).facts().members(STAGE) == ["count-1"]


def test_a_replica_without_a_number_is_one_of_them() -> None:
    assert scene(*THREE, size=1, replicas=("count-0", "by-hand")).facts().members(STAGE) == ["by-hand", "count-0"]


def test_more_asked_for_than_run_yet_keeps_all_that_are_there() -> None:
    assert scene(*THREE, desired(5)).facts().members(STAGE) == ["count-0", "count-1", "count-2"]


def test_what_the_platform_runs_is_what_is_wanted() -> None:
    status = stage_status(scene(*THREE, size=4).facts(), scene().stages[STAGE])
    assert (status.desired, status.settled) == (4, False)
    assert status.waiting_for == "3 of 4 replicas are there"


def test_why_the_platform_does_not_do_what_is_asked_for_is_told() -> None:
    made = scene(*THREE, desired(5))
    made.platform = Platform({STAGE: 3}, "forbidden")
    assert stage_status(made.facts(), made.stages[STAGE]).waiting_for == "forbidden"


def test_lag_is_that_of_the_tasks_that_run_and_the_others_are_counted() -> None:
    made = scene(*THREE)
    running = beat(runs={0: 1, 3: 1})
    reports = [report.model_copy(update={"lag": 7}) for report in running.tasks]
    made.heard("count-0", running.model_copy(update={"tasks": reports}))
    metrics = CoordinatorMetrics()
    metrics.refresh(made.facts(), leading=True)
    assert metrics.registry.get_sample_value("towpath_stage_lag_records", {"stage": STAGE}) == 14
    assert metrics.registry.get_sample_value("towpath_stage_tasks_unheard", {"stage": STAGE}) == 2
