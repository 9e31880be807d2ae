"""What is done for tasks that will probably come: begun once, forgotten in time, closed before all else."""

from __future__ import annotations

from itertools import permutations

import pytest

from statemgr.control.records import Manner, Strategy
from statemgr.migration.ports import Description
from statemgr.migration.record import ALL_BINS
from statemgr.types import TaskId
from tests.unit.towpath.stage.beside import Beside
from tests.unit.towpath.stage.cluster import STAGE, rows_of
from towpath.stage.preparations import FORGET_S, TOP_UP_S, WARM_TIMEOUT_S

TASK = TaskId(STAGE, 0)
PRECOPY = Manner(strategy=Strategy.PRECOPY, bins=4)
STANDBY = Manner(strategy=Strategy.STANDBY, bins=4)


@pytest.fixture
def beside() -> Beside:
    return Beside()


def copied(beside: Beside, manner: Manner) -> None:
    """Hint at task 0 until its copy is whole."""
    for _ in range(100):
        beside.preparations.heed([beside.hint(0, manner)])
        beside.wait()
        if beside.preparations.has_copy(TASK, 2):
            return
    raise AssertionError("no copy")


def run_behind(beside: Beside) -> None:
    """Do what waits, and then what has waited for it without a thread."""
    beside.spawn.run()
    beside.wait()
    beside.spawn.run()


def test_a_hint_opens_the_store_warms_the_holder_and_is_ready_then(beside: Beside) -> None:
    beside.spawn.holds = True
    beside.preparations.heed([beside.hint()])
    assert [request.call for request in beside.cluster.journal.requests()] == ["describe"]
    beside.wait()
    assert beside.preparations.ready() == []  # the holder has answered, the store is not open yet
    beside.spawn.run()
    assert beside.preparations.ready() == [(TASK, 2)]
    assert beside.open_stores() == [(0, 2)]


def test_the_same_hint_again_begins_nothing(beside: Beside) -> None:
    for _ in range(3):
        beside.preparations.heed([beside.hint()])
        beside.wait(FORGET_S / 2)
    assert len(beside.cluster.journal.requests("describe")) == 1
    assert beside.preparations.ready() == [(TASK, 2)]


def test_replay_prepares_nothing_and_asks_nobody(beside: Beside) -> None:
    beside.preparations.heed([beside.hint(0, Manner(strategy=Strategy.REPLAY)).model_copy(update={"layers": []})])
    assert beside.preparations.ready() == [(TASK, 2)]
    assert (beside.stores(), beside.cluster.journal.requests()) == ([], [])


def test_a_hint_for_another_epoch_replaces_the_former_one(beside: Beside) -> None:
    beside.preparations.heed([beside.hint()])
    beside.preparations.heed([beside.hint(epoch=3)])
    beside.wait()
    assert beside.stores() == [(0, 3)]
    assert beside.preparations.ready() == [(TASK, 3)]


@pytest.mark.parametrize("manner", [Manner(), PRECOPY], ids=["store", "copy"])
def test_what_nobody_hints_at_any_more_is_forgotten_and_deleted(beside: Beside, manner: Manner) -> None:
    beside.preparations.heed([beside.hint(0, manner)])
    for _ in range(50):
        beside.wait()
    assert beside.stores() == [(0, 2)]
    beside.wait(FORGET_S)
    beside.wait()
    assert (beside.stores(), beside.preparations.ready(), beside.preparations.copying) == ([], [], False)


def test_a_holder_that_does_not_answer_holds_up_no_move(beside: Beside) -> None:
    beside.cluster.cut.add("a")
    beside.preparations.heed([beside.hint()])
    beside.wait(WARM_TIMEOUT_S)
    assert beside.preparations.ready() == [(TASK, 2)]


def test_a_store_that_can_not_be_prepared_holds_up_no_move(beside: Beside) -> None:
    blocker = beside.node.backend.open(TASK, 2)
    beside.preparations.heed([beside.hint()])
    beside.wait()
    assert beside.preparations.ready() == [(TASK, 2)]
    freed = beside.preparations.take(TASK, 2)
    assert freed is not None
    assert freed.done()
    blocker.close()
    said = {beside.assigned().layers[0]: Description(beside.meta(), ALL_BINS, ())}
    opening = beside.opener.open(beside.assigned(), beside.released(), said)
    beside.opener.turn()
    assert opening.result().epoch == 2


def test_a_prepared_store_is_taken_once_it_is_open_and_stays_open(beside: Beside) -> None:
    beside.spawn.holds = True
    beside.preparations.heed([beside.hint()])
    freed = beside.preparations.take(TASK, 2)
    assert freed is not None
    assert not freed.done()
    beside.spawn.run()
    assert freed.done()
    assert beside.open_stores() == [(0, 2)]
    assert beside.preparations.take(TASK, 2) is None


def test_a_store_that_was_prepared_for_another_epoch_is_deleted_when_the_task_comes(beside: Beside) -> None:
    beside.preparations.heed([beside.hint()])
    beside.spawn.holds = True
    freed = beside.preparations.take(TASK, 3)
    assert freed is not None
    assert not freed.done()
    assert beside.stores() == [(0, 2)]
    beside.spawn.run()
    assert freed.done()
    assert beside.stores() == []


@pytest.mark.parametrize("epoch", [2, 3])
def test_a_copy_is_closed_when_its_task_comes_and_kept_for_its_own_epoch_alone(beside: Beside, epoch: int) -> None:
    copied(beside, PRECOPY)
    assert beside.open_stores() == [(0, 2)]
    assert not beside.preparations.has_copy(TASK, 3)
    freed = beside.preparations.take(TASK, epoch)
    assert freed is not None
    assert freed.done()
    assert beside.open_stores() == []
    assert beside.stores() == ([(0, 2)] if epoch == 2 else [])


def test_a_copy_that_is_still_being_opened_is_closed_behind_that(beside: Beside) -> None:
    beside.preparations.heed([beside.hint(0, PRECOPY)])
    beside.spawn.holds = True
    beside.wait()
    assert len(beside.spawn.waiting) == 1
    beside.preparations.drop()
    run_behind(beside)
    assert beside.stores() == []


def test_a_copy_that_can_not_be_begun_leaves_no_store_and_the_next_is_made(beside: Beside) -> None:
    beside.node.backend.full = True
    beside.preparations.heed([beside.hint(0, STANDBY)])
    beside.wait()
    assert (beside.open_stores(), beside.stores(), beside.preparations.copying) == ([], [], False)
    beside.node.backend.full = False
    beside.wait(TOP_UP_S)
    copied(beside, STANDBY)


def test_a_copy_that_could_not_be_begun_is_deleted_when_nobody_wants_it_any_more(beside: Beside) -> None:
    beside.preparations.heed([beside.hint(0, PRECOPY)])
    beside.spawn.holds = True
    beside.wait()
    beside.node.backend.full = True
    beside.preparations.drop()
    run_behind(beside)
    assert (beside.open_stores(), beside.stores()) == ([], [])


def test_while_a_copy_is_made_the_loop_is_told_so(beside: Beside) -> None:
    assert not beside.preparations.copying
    beside.preparations.heed([beside.hint(0, PRECOPY)])
    assert beside.preparations.copying
    copied(beside, PRECOPY)
    assert not beside.preparations.copying


def test_a_precopy_without_its_holder_is_given_up_and_the_move_goes_without(beside: Beside) -> None:
    beside.cluster.cut.add("a")
    beside.preparations.heed([beside.hint(0, PRECOPY)])
    for _ in range(5):
        beside.preparations.heed([beside.hint(0, PRECOPY)])
        beside.wait(TOP_UP_S)
    assert beside.preparations.ready() == [(TASK, 2)]
    assert not beside.preparations.has_copy(TASK, 2)
    assert len(beside.cluster.journal.requests("describe")) == 1
    assert beside.preparations.take(TASK, 2) is None
    assert beside.stores() == []


def test_a_standby_copy_that_failed_is_tried_again(beside: Beside) -> None:
    beside.cluster.cut.add("a")
    beside.preparations.heed([beside.hint(0, STANDBY)])
    beside.wait()
    beside.cluster.cut.clear()
    beside.wait(TOP_UP_S)
    copied(beside, STANDBY)
    assert len(beside.cluster.journal.requests("describe")) == 2


def test_a_standby_copy_follows_its_owner_and_is_not_made_again(beside: Beside) -> None:
    copied(beside, STANDBY)
    bins = len(beside.cluster.journal.requests("bins"))
    for _ in range(3):
        beside.cluster.write(rows_of([0, 4]))
        beside.cluster.rest()
        beside.wait(TOP_UP_S)
        found = beside.node.backend.inner.snapshot(TASK, 2)
        assert found is not None
        assert found[1] is not None
        assert found[1].offset >= beside.meta().offset
        assert beside.open_stores() == []
    assert len(beside.cluster.journal.requests("bins")) == bins
    freed = beside.preparations.take(TASK, 2)
    assert freed is not None
    assert beside.stores() == [(0, 2)]


def test_when_ownership_is_lost_everything_that_was_prepared_is_deleted(beside: Beside) -> None:
    copied(beside, PRECOPY)
    beside.preparations.heed([beside.hint(1)])
    assert beside.stores() == [(0, 2), (1, 2)]
    beside.preparations.drop()
    assert (beside.stores(), beside.open_stores(), beside.preparations.ready()) == ([], [], [])


def test_hints_that_the_log_has_overtaken_are_void(beside: Beside) -> None:
    arrivals = beside.node.coordinated._arrivals
    view = beside.cluster.coordinator.view
    arrivals.prepare([beside.hint(epoch=1), beside.hint(1, epoch=2)], view)
    assert [request.address.task.partition for request in beside.cluster.journal.requests()] == [1]


@pytest.mark.parametrize("way", ["no hint", "another epoch", "the task went to another"])
def test_a_store_is_not_prepared_behind_its_being_forgotten(beside: Beside, way: str) -> None:
    """Two threads do both: the second may come first."""
    beside.spawn.holds = True
    beside.preparations.heed([beside.hint()])
    match way:
        case "no hint":
            beside.preparations.drop()
        case "another epoch":
            beside.preparations.take(TASK, 3)
        case _:
            beside.preparations.take(TASK, 2)
            beside.opener.abandon(beside.assigned(), None, None)
    beside.spawn.waiting.reverse()
    assert len(beside.spawn.waiting) == 2
    beside.spawn.run()
    assert beside.stores() == beside.open_stores() == []


def test_a_store_that_is_wanted_again_before_it_was_forgotten_is_no_loss(beside: Beside) -> None:
    beside.spawn.holds = True
    for _ in range(2):
        beside.preparations.heed([beside.hint()])
        beside.preparations.drop()
    for order in permutations(beside.spawn.waiting):
        beside.spawn.waiting = [*order]
        beside.spawn.run()
        assert beside.stores() == beside.open_stores() == []


def test_a_copy_that_is_being_topped_up_is_put_away_behind_that_and_keeps_no_thread_waiting(beside: Beside) -> None:
    copied(beside, STANDBY)
    beside.spawn.holds = True
    beside.wait(TOP_UP_S)
    (topping,) = beside.spawn.waiting
    beside.preparations.drop()
    assert beside.spawn.waiting == [topping]
    run_behind(beside)
    assert beside.stores() == beside.open_stores() == []


@pytest.mark.parametrize("manner", [STANDBY, Manner(strategy=Strategy.REPLAY)], ids=["standby", "replay"])
def test_a_store_of_a_former_epoch_is_left_to_the_state_manager(beside: Beside, manner: Manner) -> None:
    """It may be a layer of the task: the control log says when nobody needs it any more."""
    store = beside.node.backend.open(TASK, 1)
    store.write([], beside.meta())
    store.close()
    if manner is STANDBY:
        copied(beside, manner)
        beside.wait(TOP_UP_S)
    else:
        opening = beside.opener.open(beside.assigned(0, manner), beside.released(), {})
        beside.opener.turn()
        assert opening.result().epoch == 2
    assert (0, 1) in beside.stores()
