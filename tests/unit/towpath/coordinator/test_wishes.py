"""Requests that follow each other more quickly than the log is read back."""

from __future__ import annotations

import pytest

from statemgr.control.records import Manner, Strategy
from tests.unit.towpath.coordinator.application import STAGE, Application
from towpath.coordinator.errors import NotLeadingError
from towpath.coordinator.messages import MoveRequest, ScaleRequest
from towpath.coordinator.wishes import MOST_WISHES

LAZY = Manner(strategy=Strategy.LAZY, pacing=0.5)


@pytest.fixture
def application() -> Application:
    """Two replicas, four tasks, at rest; what is written is read back after 0.4 s."""
    made = Application(marker_lag_s=0.4)
    made.add("count-0")
    made.add("count-1")
    made.settle()
    made.run(1.0)
    return made


@pytest.mark.parametrize("turns", [0, 2], ids=["waiting", "logged"])
def test_a_number_alone_keeps_the_manner_that_was_asked_for_just_before(application: Application, turns: int) -> None:
    application.heard_by.scale(ScaleRequest(stage=STAGE, replicas=2, manner=LAZY))
    for _ in range(turns):
        application.heard_by.tick()
    application.heard_by.scale(ScaleRequest(stage=STAGE, replicas=1))
    application.run(2.0)
    desired = application.heard_by.view.desired[STAGE]
    assert (desired.replicas, desired.manner) == (1, LAZY)


def move_all(application: Application, replica: str) -> None:
    for partition in range(4):
        application.heard_by.move(MoveRequest(stage=STAGE, partition=partition, replica=replica))


@pytest.mark.parametrize("turns", [0, 2], ids=["waiting", "logged"])
@pytest.mark.parametrize("before", [None, "count-0", "count-1"])
def test_a_move_that_was_asked_for_after_a_scaling_outlives_it(
    application: Application, turns: int, before: str | None
) -> None:
    if before is not None:
        move_all(application, before)
    wish = application.heard_by.scale(ScaleRequest(stage=STAGE, replicas=2))
    for _ in range(turns):
        application.heard_by.tick()
    move_all(application, "count-1")
    application.run(10.0)
    assert wish.decided.is_set()
    assert application.counts() == {"count-0": 0, "count-1": 4}


def test_a_scaling_ends_the_moves_that_were_asked_for_between_two(application: Application) -> None:
    application.heard_by.scale(ScaleRequest(stage=STAGE, replicas=2))
    move_all(application, "count-1")
    application.heard_by.scale(ScaleRequest(stage=STAGE, replicas=None))
    application.run(10.0)
    assert application.counts() == {"count-0": 2, "count-1": 2}


@pytest.mark.parametrize("turns", [0, 2], ids=["waiting", "logged"])
def test_more_requests_than_may_wait_are_refused_with_the_reason_until_those_are_decided(
    application: Application, turns: int
) -> None:
    """Each holds a thread that heartbeats need as well."""
    request = ScaleRequest(stage=STAGE, replicas=1)
    wishes = [application.heard_by.scale(request) for _ in range(MOST_WISHES)]
    for _ in range(turns):
        application.heard_by.tick()
    with pytest.raises(NotLeadingError, match="8 requests are not in force yet"):
        application.heard_by.scale(request)
    application.run(2.0)
    assert all(wish.decided.is_set() for wish in wishes)
    application.heard_by.scale(request)
