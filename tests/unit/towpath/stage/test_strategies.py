"""Each strategy does what it says: observed on a whole cluster, under input."""

from __future__ import annotations

from pathlib import Path

import pytest

from statemgr.control.records import Done, Manner, Released, Strategy
from statemgr.types import TaskId
from tests.unit.towpath.stage.cluster import STAGE, TASKS, Cluster, rows_of, stored
from tests.unit.towpath.stage.journal import Arrived, Request, Rows, places
from tests.unit.towpath.stage.under_input import HOT, KEYS, grown, left, moved_to_b, moves, running, work

pytestmark = pytest.mark.slow


# --- every strategy, there and back ----------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", Strategy)
def test_one_two_one_under_input_equals_one_batch(strategy: Strategy) -> None:
    cluster = grown(Manner(strategy=strategy, bins=16))
    cluster.add("b")
    work(cluster, running(cluster, "a", "b"))
    work(cluster, cluster.settled if strategy is not Strategy.LAZY else running(cluster, "a", "b"), most=60)
    cluster.drain("b")
    work(cluster, left(cluster, "b"))
    cluster.assert_exact()
    assert set(cluster.owners().values()) == {"a"}


@pytest.mark.parametrize("strategy", Strategy)
def test_two_three_two_under_input_equals_one_batch(strategy: Strategy) -> None:
    cluster = grown(Manner(strategy=strategy, bins=16), "a", "b")
    cluster.add("c")
    work(cluster, running(cluster, "a", "b", "c"))
    cluster.ask(replicas=2)
    work(cluster, running(cluster, "a", "b"))
    cluster.assert_exact()


@pytest.mark.parametrize("strategy", [Strategy.HYBRID, Strategy.PRECOPY])
def test_the_same_with_stores_on_disk(strategy: Strategy, tmp_path: Path) -> None:
    cluster = grown(Manner(strategy=strategy, bins=16), state_dir=tmp_path)
    cluster.add("b")
    work(cluster, running(cluster, "a", "b"))
    cluster.drain("b")
    work(cluster, left(cluster, "b"))
    cluster.assert_exact()
    cluster.close()


# --- restart ---------------------------------------------------------------------------------------------------------


def test_restart_gives_every_task_a_new_epoch_and_nothing_runs_meanwhile() -> None:
    cluster = grown(Manner(strategy=Strategy.RESTART), "a", "b")
    mark = cluster.journal.mark
    cluster.add("c")
    work(cluster, running(cluster, "a", "b", "c"))
    assert cluster.epochs() == dict.fromkeys(range(TASKS), 2)
    events = cluster.journal.events(mark)
    stopped, restored = places(events, Released)[0], places(events, Done)[-1]
    assert not [place for place in places(events, Rows) if stopped < place < restored]
    assert min(places(events, Arrived)) > restored
    assert not cluster.journal.requests(since=mark)
    cluster.assert_exact()


@pytest.mark.parametrize("slow", ["a", "c"])
def test_after_a_restart_nobody_runs_before_everybody_has_let_go_and_is_restored(slow: str) -> None:
    cluster = grown(Manner(strategy=Strategy.RESTART), "a", "b")
    cluster.add("c")
    mark = cluster.journal.mark
    while not moves(cluster, mark):
        cluster.step()
        cluster.coordinator.tick()
    cluster.nodes[slow].asleep = True
    for _ in range(10):
        cluster.write(rows_of(range(8)))
        cluster.step()
    events = cluster.journal.events(mark)
    assert places(events, Released)
    assert not places(events, Arrived)
    assert not places(events, Rows, epoch=2)
    cluster.nodes[slow].asleep = False
    cluster.assert_exact()


# --- replay ----------------------------------------------------------------------------------------------------------


def test_replay_never_asks_a_state_manager_and_restores_what_moves() -> None:
    cluster, _, moved = moved_to_b(Manner(strategy=Strategy.REPLAY))
    assert sorted(cluster.epochs().values()) == [1, 1, 2, 2]
    assert {(each.owner, each.layers) for each in moved} == {("b", ())}
    assert cluster.nodes["b"].restored() >= KEYS / 2
    cluster.drain("b")
    work(cluster, left(cluster, "b"))
    assert not cluster.journal.requests()
    cluster.assert_exact()


# --- block -----------------------------------------------------------------------------------------------------------


def test_block_processes_no_row_of_what_moves_before_its_last_bin_and_rows_of_the_rest_all_the_time() -> None:
    cluster, mark, moved = moved_to_b(Manner(strategy=Strategy.BLOCK, bins=64))
    events = cluster.journal.events(mark)
    stays = next(task for task in (TaskId(STAGE, n) for n in range(TASKS)) if cluster.epochs()[task.partition] == 1)
    for each in moved:
        bins = [place for place in places(events, Request, each.task, 2) if events[place].call == "bins"]
        assert min(bins) > events.index(each)
        assert max(bins) < places(events, Arrived, each.task, 2)[0]
        assert all(events[place].complete for place in places(events, Rows, each.task, 2))
        assert [place for place in places(events, Rows, stays) if bins[0] < place < bins[-1]]
    assert not cluster.journal.requests("look_up", "hot")
    cluster.assert_exact()


# --- precopy ---------------------------------------------------------------------------------------------------------


def test_precopy_asks_for_state_while_the_owner_works_and_for_nothing_once_the_task_is_assigned() -> None:
    cluster, mark, moved = moved_to_b(Manner(strategy=Strategy.PRECOPY, bins=64))
    events = cluster.journal.events(mark)
    for each in moved:
        asked, assigned = places(events, Request, each.task, 2), events.index(each)
        assert [place for place in asked if events[place].call == "bins"]
        assert max(asked) < assigned
        assert [place for place in places(events, Rows, each.task, 1) if asked[0] < place < asked[-1]]
        assert all(events[place].complete for place in places(events, Rows, each.task, 2))
    assert not cluster.journal.requests("look_up", "hot")
    cluster.assert_exact()


def test_precopy_reads_of_the_changelog_only_what_was_written_behind_the_copy() -> None:
    cluster, _, _ = moved_to_b(Manner(strategy=Strategy.PRECOPY, bins=64))
    assert 0 < cluster.nodes["b"].restored() < KEYS / 4
    cluster.assert_exact()


# --- standby ---------------------------------------------------------------------------------------------------------


def copy_of(cluster: Cluster, partition: int) -> dict[bytes, bytes]:
    """Entries of the copy that waits for a task's next epoch; empty if there is none."""
    task, epoch = TaskId(STAGE, partition), cluster.epochs()[partition] + 1
    for node in cluster.nodes.values():
        found = node.backend.inner.snapshot(task, epoch)
        if found is not None:
            assert partition not in node.owned()
            return {key: value for key, value in found[0].items() if len(key) > 1}
    return {}


def counts_of(cluster: Cluster, partition: int) -> dict[bytes, bytes]:
    with cluster.task(partition).state.store.scan() as pairs:
        return dict(pairs)


def copied(cluster: Cluster) -> bool:
    """Whether every task has a copy that is as new as its owner's store."""
    return all(copy_of(cluster, number) == counts_of(cluster, number) for number in range(TASKS))


def test_standby_keeps_a_copy_of_every_task_and_tops_it_up_before_anybody_asks_for_a_move() -> None:
    cluster = grown(Manner(strategy=Strategy.STANDBY, bins=64), "a", "b")
    cluster.until("every task has a copy", lambda: copied(cluster))
    assert {each.epoch for each in moves(cluster, 0)} == {1}
    requests, count = len(cluster.journal.requests("bins")), int(copy_of(cluster, 0)[stored(0)])
    cluster.write(rows_of(range(0, KEYS, 3)))
    cluster.rest()
    cluster.until("the copies are topped up", lambda: copied(cluster))
    assert int(copy_of(cluster, 0)[stored(0)]) == count + 1
    assert len(cluster.journal.requests("bins")) == requests


@pytest.mark.parametrize("planned", [True, False])
def test_standby_uses_its_copy_when_the_task_comes_and_asks_for_nothing_more(planned: bool) -> None:
    cluster = grown(Manner(strategy=Strategy.STANDBY, bins=64), "a", "b")
    cluster.until("every task has a copy", lambda: copied(cluster))
    mark, before = cluster.journal.mark, cluster.nodes["b"].restored()
    if planned:
        cluster.drain("a")
    else:
        cluster.nodes["a"].asleep = True
        cluster.cut.add("a")
        cluster.coordinator.died(STAGE, "a")
    work(cluster, running(cluster, "b") if planned else lambda: sorted(cluster.nodes["b"].owned()) == [0, 1, 2, 3])
    events = cluster.journal.events(mark)
    for each in moves(cluster, mark):
        assert not places(events[events.index(each) :], Request, each.task, 2)
        assert all(events[place].complete for place in places(events, Rows, each.task, 2))
    assert cluster.nodes["b"].restored() - before < KEYS / 4
    if planned:
        cluster.assert_exact()
    else:
        cluster.nodes.pop("a")
        cluster.assert_exact()


# --- lazy ------------------------------------------------------------------------------------------------------------


def test_lazy_asks_for_no_bin_until_the_holder_wants_to_leave_and_is_done_then() -> None:
    cluster, mark, moved = moved_to_b(Manner(strategy=Strategy.LAZY, bins=16))
    for _ in range(100):
        cluster.step()
    assert not cluster.journal.requests("bins", "hot")
    assert cluster.journal.requests("look_up")
    epochs = {each.task: each.epoch for each in moved}
    assert not [event for event in cluster.journal.events(mark) if isinstance(event, Done) and event.task in epochs]
    assert all(cluster.progress(task.partition)["bins_done"] == 0 for task in epochs)
    cluster.drain("a")
    work(cluster, left(cluster, "a"))
    assert {request.address.task for request in cluster.journal.requests("bins")} >= epochs.keys()
    cluster.assert_exact()


def test_lazy_runs_at_once_and_looks_up_what_rows_need_and_nothing_else() -> None:
    cluster, _, moved = moved_to_b(Manner(strategy=Strategy.LAZY))
    cluster.rest()
    begun = len(cluster.sent)
    cluster.write(rows_of([*range(100, 108), *range(100, 108)]))
    since = cluster.journal.mark
    cluster.rest()
    asked = [key for request in cluster.journal.requests("look_up", since=since) for key in request.keys]
    came = {each.partition for each in moved}
    wanted = {stored(row["auction"]) for row in cluster.sent[begun:] if row["auction"] % TASKS in came}
    assert set(asked) <= wanted
    assert len(asked) == len(set(asked))
    assert not cluster.settled()


# --- hybrid ----------------------------------------------------------------------------------------------------------


def test_hybrid_has_the_hot_set_first_then_what_rows_need_and_bins_and_says_done_at_the_end() -> None:
    cluster, mark, moved = moved_to_b(Manner(strategy=Strategy.HYBRID, bins=64))
    work(cluster, cluster.settled)
    events = cluster.journal.events(mark)
    for each in moved:
        asked = [place for place in places(events, Request, each.task, 2) if place > events.index(each)]
        calls = [events[place].call for place in asked if events[place].call != "look_up"]
        assert calls[0] == "hot"
        assert set(calls[1:]) == {"bins"}
        arrived, done = places(events, Arrived, each.task, 2)[0], places(events, Done, each.task, 2)[0]
        assert arrived < asked[0] < asked[-1] < done
        assert not events[places(events, Rows, each.task, 2)[0]].complete
    assert cluster.journal.requests("look_up", since=mark)
    cluster.assert_exact()


def test_hybrid_looks_up_no_key_of_the_hot_set() -> None:
    cluster = grown(Manner(strategy=Strategy.HYBRID, bins=64))
    mark = cluster.journal.mark
    cluster.add("b")
    cluster.until("b runs tasks", running(cluster, "a", "b"))
    cluster.until("hot keys are there", lambda: all(cluster.progress(n).get("hot_keys", 1) for n in range(TASKS)))
    cluster.write(rows_of([*HOT, 399, 398, 397, 396]))
    cluster.rest()
    asked = {key for request in cluster.journal.requests("look_up", since=mark) for key in request.keys}
    assert asked
    assert not asked & {stored(auction) for auction in HOT}
    cluster.assert_exact()
