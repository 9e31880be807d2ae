"""A key that one owner has deleted stays deleted, whatever late news of an earlier owner arrive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from statemgr.control.records import Strategy
from tests.cases.clusters import Standstill, grown, owned_by, running
from tests.unit.towpath.stage.cluster import TASKS, Cluster
from tests.unit.towpath.stage.plans import CHANGELOG, count_stage
from towpath.operators.process import KeyedProcess, KeyState
from towpath.query.plan import OperatorPlan, StagePlan
from towpath.testing.views import changelog_state

KEYS = 40
SCHEMA = {"auction": pl.Int64(), "value": pl.Int64()}


def apply(row: Mapping[str, Any], state: KeyState) -> Iterator[dict[str, Any]]:
    """A negative value deletes the key."""
    if row["value"] < 0:
        state.delete()
    else:
        state.set(row["value"])
    yield {"auction": row["auction"], "value": state.get(-1)}


def registry() -> StagePlan:
    plan = count_stage(partitions=TASKS, source_partitions=TASKS)
    operator = OperatorPlan("registry", lambda: KeyedProcess(["auction"], apply, SCHEMA, "count"))
    return replace(plan, inputs=(replace(plan.inputs[0], schema=SCHEMA),), operators=(operator,))


def registered(strategy: Strategy = Strategy.HYBRID) -> Cluster:
    cluster = grown("a", "b", strategy=strategy, keys=[], plan=registry())
    put(cluster, range(KEYS), 1)
    cluster.rest()
    return cluster


def put(cluster: Cluster, auctions: Any, value: int) -> None:
    cluster.write({"auction": auction, "value": value} for auction in auctions)


def require(cluster: Cluster, deleted: set[int]) -> None:
    """State and changelog have exactly the other keys."""
    cluster.rest()
    there = {int(key) for key in cluster.state()}
    assert there == set(range(KEYS)) - deleted
    assert {int(key) for key in changelog_state(cluster.kafka, cluster.plan, cluster.plan.tables[0])} == there


@pytest.mark.parametrize("strategy", [Strategy.HYBRID, Strategy.BLOCK, Strategy.PRECOPY, Strategy.REPLAY])
def test_values_that_arrive_after_a_delete_change_nothing(strategy: Strategy) -> None:
    cluster = registered(strategy)
    partition = next(iter(cluster.nodes["a"].owned()))
    gone = {auction for auction in range(KEYS) if auction % TASKS == partition and auction % 3}
    cluster.move(partition, "b")
    cluster.until("b runs it", owned_by(cluster, partition, "b"))
    put(cluster, gone, -1)
    cluster.rest()
    cluster.settle()
    require(cluster, gone)
    for name in ("a", "b", "a"):
        cluster.move(partition, name)
        cluster.until(f"{name} runs it", owned_by(cluster, partition, name))
        cluster.settle()
        require(cluster, gone)


def test_a_delete_survives_compaction_with_its_tombstone_removed_and_a_move_from_the_changelog_alone() -> None:
    cluster = registered(Strategy.REPLAY)
    partition = next(iter(cluster.nodes["a"].owned()))
    gone = {auction for auction in range(KEYS) if auction % TASKS == partition}
    put(cluster, gone, -1)
    cluster.rest()
    cluster.kafka.compact(CHANGELOG, drop_tombstones=True)
    moved_quietly(cluster, partition, "b")
    require(cluster, gone)


def moved_quietly(cluster: Cluster, partition: int, name: str) -> None:
    cluster.move(partition, name)
    cluster.until(f"{name} runs it", owned_by(cluster, partition, name))
    cluster.settle()


@pytest.mark.parametrize("call", ["produce_batch", "produce", "flush", "commit"])
def test_a_late_put_of_an_owner_that_was_replaced_revives_no_key_that_its_successor_deleted(call: str) -> None:
    cluster = registered()
    node = cluster.nodes["a"]
    gone = {auction for auction in range(KEYS) if auction % TASKS in node.owned()}
    standstill = Standstill(cluster, node)

    def stand(client: str, called: str) -> None:
        if (client, called) == ("a", call) and not standstill.lasts:
            standstill.here()

    cluster.kafka.on_call(stand)
    put(cluster, gone, 7)
    standstill.begin()
    cluster.kafka.on_call(None)
    cluster.until("b owns everything", lambda: len(cluster.nodes["b"].owned()) == TASKS)
    put(cluster, gone, -1)
    cluster.rest()
    standstill.go_on()
    cluster.until("both own tasks again", running(cluster, "a", "b"))
    cluster.settle()
    require(cluster, gone)
