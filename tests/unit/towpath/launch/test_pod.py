"""What the supervisor of a replica does: an event in, actions out."""

from __future__ import annotations

import signal

import pytest

from towpath.launch.pod import LAST_BACKOFF_S, Action, Part, PodPhase, PodPolicy, Report, Say, Send, Start

STAGE, STATE = Part.STAGE, Part.STATE_MANAGER
TERM, KILL = signal.SIGTERM, signal.SIGKILL


def running(*, stateful: bool = True) -> PodPolicy:
    policy = PodPolicy(stateful, grace_s=100.0)
    for action in policy.begin():
        assert isinstance(action, Start)
        assert policy.started(action.part, 0.0) == []
    return policy


def told(actions: list[Action]) -> list[Action]:
    return [action for action in actions if not isinstance(action, Say)]


def test_the_state_manager_starts_before_the_stage_that_asks_for_its_address() -> None:
    assert PodPolicy(stateful=True).begin() == [Start(STATE), Start(STAGE)]
    assert PodPolicy(stateful=False).begin() == [Start(STAGE)]


def test_a_crashed_stage_is_reported_first_and_started_again_at_once() -> None:
    assert told(running().exited(STAGE, 137, 60.0)) == [Report(), Start(STAGE)]


def test_a_crashed_state_manager_is_started_again_and_the_stage_works_on() -> None:
    assert told(running().exited(STATE, 139, 60.0)) == [Start(STATE)]


def test_what_crashes_again_and_again_waits_longer_each_time() -> None:
    policy = running()
    waits = []
    for _ in range(10):
        (start,) = [action for action in policy.exited(STATE, 70, 1.0) if isinstance(action, Start)]
        policy.started(STATE, 1.0)
        waits.append(start.after_s)
    assert waits[:4] == [0.0, 0.1, 0.2, 0.4]
    assert waits[-1] == LAST_BACKOFF_S
    assert told(policy.exited(STATE, 70, 60.0)) == [Start(STATE)], "it has lived long enough to be trusted again"


def test_a_stop_goes_to_the_stage_alone_and_then_the_state_manager_lingers() -> None:
    policy = running()
    assert told(policy.stop(10.0)) == [Send(STAGE, TERM)]
    assert (policy.phase, policy.deadline_s) == (PodPhase.DRAINING, 110.0)
    assert told(policy.exited(STAGE, 0, 20.0)) == [Send(STATE, TERM)]
    assert policy.phase is PodPhase.LINGERING
    assert told(policy.exited(STATE, 0, 30.0)) == []
    assert (policy.phase, policy.status) == (PodPhase.ENDED, 0)


def test_a_stage_without_state_ends_the_pod() -> None:
    policy = running(stateful=False)
    policy.stop(0.0)
    assert told(policy.exited(STAGE, 0, 1.0)) == []
    assert policy.phase is PodPhase.ENDED


def test_a_stage_that_dies_while_it_drains_is_reported_and_its_status_kept() -> None:
    policy = running()
    policy.stop(0.0)
    assert told(policy.exited(STAGE, 137, 1.0)) == [Report(), Send(STATE, TERM)]
    policy.exited(STATE, 0, 2.0)
    assert policy.status == 137


def test_a_stage_that_was_asked_to_stop_before_it_could_heed_it_has_ended_well() -> None:
    policy = running(stateful=False)
    policy.stop(0.0)
    assert told(policy.exited(STAGE, 128 + TERM, 0.1)) == []
    assert (policy.phase, policy.status) == (PodPhase.ENDED, 0)


def test_a_state_manager_that_crashes_while_others_need_it_is_started_again() -> None:
    policy = running()
    policy.stop(0.0)
    assert told(policy.exited(STATE, 137, 1.0)) == [Start(STATE)]
    assert told(policy.exited(STAGE, 0, 1.5)) == [], "it will linger, too"
    assert policy.phase is PodPhase.LINGERING
    assert policy.started(STATE, 2.0) == [Send(STATE, TERM)]
    assert told(policy.exited(STATE, 137, 3.0)) == [Start(STATE, 0.1)]


@pytest.mark.parametrize("status", [0, 1, 2])
def test_a_stage_that_ends_by_itself_ends_the_pod_with_its_status_but_its_state_can_still_be_had(status: int) -> None:
    policy = running()
    assert told(policy.exited(STAGE, status, 5.0)) == [Report(), Send(STATE, TERM)]
    assert (policy.phase, policy.status, policy.deadline_s) == (PodPhase.LINGERING, status, 105.0)


def test_a_state_manager_that_can_t_run_ends_the_pod_after_a_drain() -> None:
    policy = running()
    assert told(policy.exited(STATE, 2, 1.0)) == [Send(STAGE, TERM)]
    assert told(policy.exited(STAGE, 0, 2.0)) == []
    assert (policy.phase, policy.status) == (PodPhase.ENDED, 2)


def test_a_second_stop_ends_everything_at_once() -> None:
    policy = running()
    policy.stop(0.0)
    assert told(policy.stop(1.0)) == [Send(STAGE, KILL), Send(STATE, KILL)]
    assert policy.phase is PodPhase.ENDED


def test_a_stop_between_two_lives_of_the_stage_starts_none() -> None:
    policy = running()
    policy.exited(STAGE, 137, 1.0)
    assert told(policy.stop(1.0)) == [Send(STAGE, TERM), Send(STATE, TERM)]
    assert policy.phase is PodPhase.LINGERING
    assert policy.started(STAGE, 1.1) == [Send(STAGE, TERM)], "the start was under way already"


def test_what_was_started_after_the_end_is_killed() -> None:
    policy = running()
    policy.overdue()
    assert policy.started(STATE, 1.0) == [Send(STATE, KILL)]
