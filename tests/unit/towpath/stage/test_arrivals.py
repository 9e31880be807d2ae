"""Tasks that arrive while something fails: whatever was opened is closed, and the next try finds it so."""

from __future__ import annotations

from itertools import pairwise

import pytest

from statemgr.control.records import Done, Manner, Strategy
from statemgr.errors import (
    KafkaRefusedError,
    KafkaUnavailableError,
    ProducerLostError,
    RestoreStalledError,
    RetryableKafkaError,
    StateError,
)
from tests.unit.towpath.stage.cluster import STAGE, TASKS, Cluster, rows_of
from tests.unit.towpath.stage.under_input import running
from towpath.stage.arrivals import AGAIN_S
from towpath.stage.coordinated import Changes
from towpath.stage.opening import SILENT_S


def two_at_work(strategy: Strategy) -> Cluster:
    cluster = Cluster(Manner(strategy=strategy, bins=4))
    cluster.add("a")
    cluster.add("b")
    cluster.settle()
    cluster.write(rows_of(range(80)))
    cluster.rest()
    return cluster


@pytest.mark.parametrize("strategy", Strategy)
def test_a_newcomer_whose_commit_fails_in_the_turn_in_which_a_task_arrives_tries_again(strategy: Strategy) -> None:
    """One task is done, which is to be logged, in the turn in which the other arrives."""
    cluster = two_at_work(strategy)
    newcomer = cluster.add("c")
    coordinated = newcomer.coordinated
    turn, failed = coordinated.turn, []

    def failing_turn(*args):
        changes = turn(*args)
        if changes.arrived and not failed:
            failed.append(True)
            cluster.kafka.fail_next("commit", ProducerLostError("no definite answer"), client="c")
            facts = [Done(task.id.stage, task.id.partition, task.epoch, "c") for task in changes.arrived]
            return Changes(changes.leaving, changes.arrived, [*changes.facts, *facts])
        return changes

    coordinated.turn = failing_turn
    cluster.until("c runs tasks", running(cluster, "a", "b", "c"))
    assert failed
    cluster.hurry()
    cluster.assert_exact()


def test_a_task_that_has_arrived_is_closed_when_another_fails_to_open() -> None:
    cluster = two_at_work(Strategy.PRECOPY)
    cluster.kafka.fail_next("assign", ProducerLostError("no answer"), client="b-restore", skip=1)
    cluster.drain("a")
    cluster.until("b runs all", lambda: sorted(cluster.nodes["b"].owned()) == list(range(TASKS)))
    labels = {"stage": STAGE, "replica": "b"}
    assert cluster.nodes["b"].metrics.registry.get_sample_value("towpath_producer_lost_total", labels) == 1
    cluster.assert_exact()


LATER = [RestoreStalledError("no leader"), KafkaUnavailableError("no answer"), RetryableKafkaError("not now")]


def lost(cluster: Cluster, name: str) -> float | None:
    labels = {"stage": STAGE, "replica": name}
    return cluster.nodes[name].metrics.registry.get_sample_value("towpath_producer_lost_total", labels)


@pytest.mark.parametrize("strategy", [Strategy.REPLAY, Strategy.PRECOPY, Strategy.HYBRID])
@pytest.mark.parametrize("error", LATER, ids=lambda error: type(error).__name__)
def test_a_task_that_can_not_be_opened_yet_is_opened_later_and_its_replica_goes_on(
    strategy: Strategy, error: StateError
) -> None:
    """Of one partition without a leader nobody else would learn more: its other tasks must not go from hand to hand."""
    cluster = two_at_work(strategy)
    (stuck, *_) = cluster.nodes["a"].owned()
    opening = cluster.nodes["b"].coordinated._arrivals._opener._opening
    tries = []

    def fails(method):
        def call(*args, **more):
            if len(tries) < 3 and of_stuck(args[0]):
                tries.append(cluster.clock.monotonic_s())
                raise error
            return method(*args, **more)

        return call

    def of_stuck(what) -> bool:
        return stuck in what if isinstance(what, dict) else what.partition == stuck

    opening.restore, opening.open, opening.at_cut = map(fails, (opening.restore, opening.open, opening.at_cut))
    cluster.move(stuck, "b")
    cluster.until("three tries", lambda: len(tries) == 3)
    assert cluster.nodes["b"].owned()
    cluster.until("b runs it", lambda: stuck in cluster.nodes["b"].owned())
    assert all(later - earlier >= AGAIN_S for earlier, later in pairwise(tries))
    assert lost(cluster, "b") == 0
    cluster.assert_exact()


def test_a_refusal_while_a_task_is_opened_ends_the_replica() -> None:
    cluster = two_at_work(Strategy.HYBRID)
    opener = cluster.nodes["b"].coordinated._arrivals._opener

    def refused(*_):
        raise KafkaRefusedError("no rights")

    opener._opening.restore = opener._opening.open = opener._opening.at_cut = refused
    cluster.move(next(iter(cluster.nodes["a"].owned())), "b")
    with pytest.raises(KafkaRefusedError, match="no rights"):
        cluster.until("b runs it", lambda: len(cluster.nodes["b"].owned()) == TASKS)


def test_a_control_log_that_stands_still_while_a_replica_becomes_owner_does_not_end_it() -> None:
    cluster = two_at_work(Strategy.HYBRID)
    node = cluster.nodes["b"]
    control, stalls = node.coordinated._control, [RestoreStalledError("app.control stands still")] * 3
    read = control.read_to_end

    def stalled(*args, **more):
        if stalls:
            raise stalls.pop()
        return read(*args, **more)

    control.read_to_end = stalled
    node.replica.drop("a test")
    cluster.until("b is owner again", lambda: len(node.owned()) > 0)
    assert not stalls
    cluster.assert_exact()


@pytest.mark.parametrize("back", [True, False])
def test_a_holder_that_is_silent_for_a_moment_is_asked_again_before_all_is_read_from_the_changelog(back: bool) -> None:
    cluster = two_at_work(Strategy.HYBRID)
    victim = cluster.nodes["a"]
    (moved, *_) = victim.owned()
    victim.asleep = True
    cluster.cut.add("a")
    cluster.until("a's tasks are opened by b", lambda: cluster.nodes["b"].coordinated._arrivals.waiting)
    opening = cluster.nodes["b"].coordinated._arrivals._opener._opening
    by, carry_out = [], opening._carry_out

    def watched(assigned, decision):
        by.append(type(decision).__name__)
        return carry_out(assigned, decision)

    opening._carry_out = watched
    began_s = cluster.clock.monotonic_s()
    cluster.until("half of the patience is over", lambda: cluster.clock.monotonic_s() - began_s > SILENT_S / 2)
    assert by == []
    if back:
        cluster.cut.discard("a")
    cluster.until("b runs it", lambda: moved in cluster.nodes["b"].owned())
    assert set(by) == {"Layers" if back else "Replay"}
    cluster.cut.clear()
    victim.asleep = False
    cluster.assert_exact()
