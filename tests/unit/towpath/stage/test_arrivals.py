"""Tasks that arrive while something fails: whatever was opened is closed, and the next try finds it so."""

from __future__ import annotations

import pytest

from statemgr.control.records import Done, Manner, Strategy
from statemgr.errors import ProducerLostError, RetryableKafkaError
from tests.unit.towpath.stage.cluster import STAGE, TASKS, Cluster, rows_of
from tests.unit.towpath.stage.under_input import running
from towpath.stage.coordinated import Changes


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
    cluster.kafka.fail_next("assign", RetryableKafkaError("no answer"), client="b-restore", skip=1)
    cluster.drain("a")
    cluster.until("b runs all", lambda: sorted(cluster.nodes["b"].owned()) == list(range(TASKS)))
    labels = {"stage": STAGE, "replica": "b"}
    assert cluster.nodes["b"].metrics.registry.get_sample_value("towpath_producer_lost_total", labels) == 1
    cluster.assert_exact()
