"""When arriving tasks are opened, and what becomes of those that nobody wants any more."""

from __future__ import annotations

import logging

import pytest
import structlog
from structlog.testing import capture_logs

from statemgr.control.records import Manner, Strategy
from statemgr.errors import HolderUnavailableError, RestoreStalledError, RetryableKafkaError, StoreWriteError
from statemgr.types import TaskId
from tests.unit.towpath.stage.beside import Beside
from tests.unit.towpath.stage.cluster import STAGE, stored
from towpath.stage.background import at_once
from towpath.stage.opening import NoAnswer

TASK = TaskId(STAGE, 0)
REPLAY = Manner(strategy=Strategy.REPLAY)


@pytest.fixture
def beside() -> Beside:
    return Beside()


def test_a_task_is_opened_in_the_turn_after_it_was_asked_for(beside: Beside) -> None:
    opening = beside.opener.open(beside.assigned(), beside.released(), {})
    assert not opening.done()
    with pytest.raises(HolderUnavailableError, match=r"the opening of .* has not begun"):
        opening.result()
    beside.opener.turn()
    task = opening.result()
    assert (task.id, task.epoch, task.migrating) == (TASK, 2, True)
    assert beside.open_stores() == [(0, 2)]


def test_tasks_from_the_changelog_share_one_restore(beside: Beside) -> None:
    beside.spawn.holds = True
    openings = [beside.opener.open(beside.assigned(at, REPLAY), None, {}) for at in (0, 1, 3)]
    with pytest.raises(HolderUnavailableError, match="the restore of partition 0 has not begun"):
        openings[0].result()
    beside.opener.turn()
    assert len(beside.spawn.waiting) == 1
    beside.spawn.run()
    tasks = [opening.result() for opening in openings]
    assert [task.id.partition for task in tasks] == [0, 1, 3]
    assert all(task.state and task.state.table("count").get(b"%d" % task.id.partition) == 1 for task in tasks)


def test_a_restore_that_fails_fails_for_all_its_tasks_and_leaves_no_store_open(beside: Beside) -> None:
    openings = [beside.opener.open(beside.assigned(at, REPLAY), None, {}) for at in (0, 1)]
    for _ in range(1000):
        beside.cluster.kafka.fail_next("bounds", RetryableKafkaError("no leader"), client="b-restore")
    beside.opener.turn()
    for opening in openings:
        with pytest.raises(RestoreStalledError):
            opening.result()
    assert beside.open_stores() == []


def test_nothing_of_a_task_is_opened_before_its_older_store_is_closed(beside: Beside) -> None:
    first = beside.opener.open(beside.assigned(), beside.released(), {})
    other = beside.opener.open(beside.assigned(1, REPLAY), None, {})
    beside.opener.turn()
    beside.spawn.holds = True
    beside.opener.put_away(first.result())
    again = beside.opener.open(beside.assigned(epoch=4), None, {beside.assigned().layers[0]: NoAnswer.LOST})
    replayed = beside.opener.open(beside.assigned(0, REPLAY, epoch=4), None, {})
    beside.opener.turn()
    assert len(beside.spawn.waiting) == 1  # the closing alone
    beside.spawn.run()
    assert beside.open_stores() == [(1, 2)]
    beside.opener.turn()
    assert len(beside.spawn.waiting) == 2
    assert other.done()
    assert not again.done()
    assert not replayed.done()


def test_what_has_not_begun_never_does_and_what_was_prepared_for_it_is_deleted(beside: Beside) -> None:
    beside.preparations.heed([beside.hint()])
    assert beside.stores() == [(0, 2)]
    for manner in (Manner(), REPLAY):
        opening = beside.opener.open(beside.assigned(0, manner), beside.released(), {})
        beside.opener.abandon(beside.assigned(0, manner), opening, None)
        beside.opener.turn()
        assert not opening.done()
    assert beside.stores() == []


def test_a_store_is_closed_that_was_being_opened_when_its_task_went_to_another(beside: Beside) -> None:
    beside.spawn.holds = True
    opening = beside.opener.open(beside.assigned(), beside.released(), {})
    beside.opener.turn()
    beside.opener.abandon(beside.assigned(), opening, None)
    later = beside.opener.open(beside.assigned(0, REPLAY, epoch=4), None, {})
    beside.opener.turn()
    assert not later.done()
    assert len(beside.spawn.waiting) == 1  # the later one waits for the first
    beside.spawn.run()
    beside.opener.turn()
    assert beside.open_stores() == [(0, 2)]  # closed beside the loop, too
    beside.spawn.run()
    beside.opener.turn()
    assert beside.open_stores() == []
    beside.opener.turn()
    beside.spawn.run()
    assert later.result().epoch == 4


def test_an_opening_that_failed_after_its_task_went_to_another_troubles_nobody(beside: Beside) -> None:
    beside.spawn.holds = True
    opening = beside.opener.open(beside.assigned(0, REPLAY), None, {})
    beside.opener.turn()
    beside.opener.abandon(beside.assigned(0, REPLAY), opening, None)
    for _ in range(1000):
        beside.cluster.kafka.fail_next("bounds", RetryableKafkaError("no leader"), client="b-restore")
    beside.spawn.run()
    beside.opener.turn()
    beside.spawn.run()
    beside.opener.turn()
    assert beside.open_stores() == []
    beside.opener.open(beside.assigned(0, REPLAY, epoch=4), None, {})
    beside.opener.turn()
    assert len(beside.spawn.waiting) == 1  # nothing holds it up


def test_a_store_that_can_not_be_begun_is_closed(beside: Beside) -> None:
    beside.node.backend.full = True
    opening = beside.opener.open(beside.assigned(), beside.released(), {})
    beside.opener.turn()
    with pytest.raises(StoreWriteError):
        opening.result()
    assert beside.open_stores() == []


def test_what_fails_on_a_store_that_nobody_waits_for_is_said_and_holds_up_nothing(beside: Beside) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET))
    beside.opener.hold(TASK, at_once(lambda: 1 // 0))
    with capture_logs() as logs:
        opening = beside.opener.open(beside.assigned(), beside.released(), {})
        beside.opener.turn()
    assert opening.done()
    assert ("count/0", "ZeroDivisionError: integer division or modulo by zero") in [
        (entry.get("task"), entry.get("cause")) for entry in logs
    ]


def test_lost_ownership_begins_nothing_more_and_closes_what_is_being_opened(beside: Beside) -> None:
    beside.spawn.holds = True
    begun = beside.opener.open(beside.assigned(), beside.released(), {})
    beside.opener.turn()
    waits = beside.opener.open(beside.assigned(1), beside.released(1), {})
    beside.opener.abandon(beside.assigned(), begun, None)
    beside.opener.drop()
    beside.spawn.run()
    beside.opener.turn()
    beside.spawn.run()
    assert not waits.done()
    assert beside.open_stores() == []


def test_a_migration_that_is_put_away_asks_no_more(beside: Beside) -> None:
    opening = beside.opener.open(beside.assigned(), beside.released(), {})
    beside.opener.turn()
    task = opening.result()
    beside.opener.put_away(task)
    mark = beside.cluster.journal.mark
    assert task.migration is not None
    task.migration.request([stored(0)])
    task.migration.advance(beside.cluster.clock.monotonic_s(), 1.0)
    assert not beside.cluster.journal.requests(since=mark)
