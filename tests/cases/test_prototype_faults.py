"""Four faults of the prototype, each of which lost or doubled updates when a stage changed its size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import polars as pl
import pytest

from statemgr.control.records import Assigned, Fenced, Manner, Strategy
from statemgr.layout import HOT_KEY
from statemgr.state import TableSpec, TaskState, json_codec
from statemgr.types import TaskId
from tests.unit.statemgr.migration.world import TASK, World, meta
from tests.unit.towpath.stage.cluster import STAGE, TASKS, Cluster, Node, rows_of, stored
from tests.unit.towpath.stage.journal import Arrived, places
from tests.unit.towpath.stage.plans import APP, SINK, SOURCE
from towpath.operators.process import KeyedProcess, KeyState
from towpath.query.plan import Edge, Format, InputPlan, OperatorPlan, OutputPlan, StagePlan
from towpath.testing.views import changelog_state

LAZY = Manner(strategy=Strategy.LAZY)
COUNTS = TableSpec("count", 0, json_codec(int))

Row = dict[str, Any]


def count_or_delete(row: Row, state: KeyState) -> Iterator[Row]:
    """A negative number deletes the count."""
    state.set(None if row["n"] < 0 else state.get(0) + 1)
    yield {"auction": row["auction"], "count": state.get(0)}


def overwrite(row: Row, state: KeyState) -> Iterator[Row]:
    """Writes without a look at what was there."""
    state.set(row["n"])
    yield {"auction": row["auction"], "count": row["n"]}


def stage_of(function: Any) -> StagePlan:
    out = {"auction": pl.Int64(), "count": pl.Int64()}
    return StagePlan(
        app=APP,
        name=STAGE,
        inputs=(InputPlan(SOURCE, Format.JSON, {"auction": pl.Int64, "n": pl.Int64}, TASKS),),
        operators=(OperatorPlan("count", lambda: KeyedProcess(["auction"], function, out, COUNTS.name)),),
        outputs=(OutputPlan(SINK, Format.JSON, Edge.HASH, ("auction",), TASKS, inner=False),),
        tables=(COUNTS,),
    )


def numbered(auctions: Iterable[int], n: int) -> list[Row]:
    return [{"auction": auction, "n": n} for auction in auctions]


def expected(rows: Sequence[Row], function: Any) -> tuple[dict[bytes, int], dict[int, list[int]]]:
    """State, and each auction's outputs, of one batch over all rows."""
    states: dict[int, KeyState] = {}
    outputs: dict[int, list[int]] = {}
    for row in rows:
        state = states.setdefault(row["auction"], KeyState(None))
        outputs.setdefault(row["auction"], []).extend(out["count"] for out in function(row, state))
    return {str(key).encode(): state.value for key, state in states.items() if state.value is not None}, outputs


def assert_equals_a_batch(cluster: Cluster, function: Any) -> None:
    cluster.rest()
    cluster.hurry()
    cluster.settle()
    state, outputs = expected(cluster.sent, function)
    found: dict[int, list[int]] = {}
    for record in cluster.output():
        found.setdefault(record.value["auction"], []).append(record.value["count"])
    assert found == outputs
    assert cluster.state() == state
    assert changelog_state(cluster.kafka, cluster.plan, COUNTS) == state


def moved(cluster: Cluster, partition: int, replica: str) -> None:
    """Give a task to a replica, which then runs it."""
    cluster.until(f"{replica} is known", lambda: replica in cluster.coordinator.facts().members(STAGE))
    cluster.move(partition, replica)
    cluster.until(f"{replica} runs the task", lambda: cluster.owners().get(partition) == replica)


# --- 1: a write before the first read was lost -----------------------------------------------------------------------


@pytest.mark.parametrize("way", ["look_up", "hot", "bins"])
def test_a_value_written_before_the_former_one_arrives_stays(way: str) -> None:
    world, key = World(), stored(7)
    hot = msgspec.msgpack.encode([key])
    layers = (world.holder("a", 1, {key: b"1", stored(8): b"1", HOT_KEY: hot}),)
    store = world.over("b", 2, layers)
    state = TaskState(TASK, 2, store, [COUNTS])
    job = world.job(store, layers, Manner(strategy=Strategy.LAZY if way == "look_up" else Strategy.HYBRID))
    world.network.delay_s = 1.0
    if way == "look_up":
        job.request([key])
    world.poll(job)
    state.table("count").put(b"7", 50)
    state.changes()
    state.apply(meta(11, 2))
    job.hurry()
    for _ in range(2000):
        world.poll(job, 0.5)
    assert job.complete
    assert world.network.count(way)
    assert state.finish_migration()
    assert state.table("count").get_many([b"7", b"8"]) == [50, 1]
    assert state.store.get_many([key]) == [b"50"]


@pytest.mark.parametrize("strategy", [Strategy.LAZY, Strategy.HYBRID])
def test_rows_that_overwrite_unread_state_count_after_any_number_of_moves(strategy: Strategy) -> None:
    cluster = Cluster(Manner(strategy=strategy, bins=16), plan=stage_of(overwrite))
    cluster.add("a")
    cluster.settle()
    cluster.write(numbered(range(200), 1))
    cluster.rest()
    cluster.add("b")
    for turn, auctions in enumerate((range(0, 200, 2), range(0, 200, 3), range(0, 200, 5)), start=2):
        cluster.until("it moves", lambda turn=turn: max(cluster.epochs().values()) >= min(turn, 2))
        cluster.write(numbered(auctions, turn))
        cluster.step()
        moved(cluster, 0, "ab"[turn % 2])
    assert_equals_a_batch(cluster, overwrite)


# --- 2: "migrated" was marked by hash instead of by key --------------------------------------------------------------


def pair_in_one_bin(partition: int, below: int) -> tuple[int, int]:
    """Two auctions of a task whose keys are in the same bin."""
    first: dict[int, int] = {}
    for auction in range(partition, below, TASKS):
        other = first.setdefault(stored(auction)[0], auction)
        if other != auction:
            return other, auction
    raise AssertionError("no pair")


def test_a_key_that_has_come_says_nothing_of_others_in_its_bin() -> None:
    cluster = Cluster(LAZY)
    cluster.add("a")
    cluster.settle()
    cluster.write(rows_of(range(400)))
    cluster.rest()
    cluster.add("b")
    moved(cluster, 1, "b")
    one, other = pair_in_one_bin(1, 400)
    cluster.write(rows_of([one]))
    cluster.rest()
    state = cluster.task(1).state
    assert state.unresolved("count", [b"%d" % one, b"%d" % other]) == [b"%d" % other]
    assert cluster.progress(1)["bins_done"] == 0
    cluster.write(rows_of([other, one]))
    cluster.rest()
    assert [request.keys for request in cluster.journal.requests("look_up")] == [[stored(one)], [stored(other)]]
    counts = [record.value for record in cluster.output() if record.value["auction"] in (one, other)]
    assert sorted((each["auction"], each["count"]) for each in counts) == sorted(
        [(one, 1), (one, 2), (one, 3), (other, 1), (other, 2)]
    )


# --- 3: the old owner was never fenced -------------------------------------------------------------------------------


def two_of_one_stage() -> Cluster:
    cluster = Cluster(Manner(bins=16))
    cluster.add("a")
    cluster.add("b")
    cluster.settle()
    cluster.write(rows_of(range(200)))
    cluster.rest()
    return cluster


def assert_fenced_in_order(cluster: Cluster, mark: int) -> None:
    """Intent, fence, and only then the new owner."""
    events = cluster.journal.events(mark)
    fenced = next(place for place, event in enumerate(events) if isinstance(event, Fenced) and event.replica == "a")
    tasks = {event.task for event in events[:fenced] if isinstance(event, Assigned) and event.owner == "b"}
    assert tasks
    assert all(place > fenced for task in tasks for place in places(events, Arrived, task))


def lost(node: Node) -> float | None:
    """How often a replica has met its fence."""
    labels = {"stage": STAGE, "replica": node.name}
    return node.metrics.registry.get_sample_value("towpath_producer_lost_total", labels)


@pytest.mark.parametrize("call", ["begin", "flush", "commit"])
def test_an_owner_that_sleeps_in_its_transaction_is_fenced_before_another_runs_its_tasks(call: str) -> None:
    cluster = two_of_one_stage()
    mark, former = cluster.journal.mark, cluster.nodes["a"]

    def sleep(client: str, called: str) -> None:
        if (client, called) == ("a", call):
            cluster.kafka.on_call(None)
            former.asleep = True
            cluster.until("b runs everything", lambda: sorted(cluster.nodes["b"].owned()) == list(range(TASKS)))
            cluster.write(rows_of(range(100)))
            cluster.step()

    cluster.kafka.on_call(sleep)
    cluster.write(rows_of(range(200)))
    cluster.step()
    assert former.asleep
    assert not former.owned()
    assert lost(former) == 1
    assert_fenced_in_order(cluster, mark)
    former.asleep = False
    cluster.assert_exact()


def test_an_owner_that_is_heard_but_does_not_let_go_is_fenced_with_all_its_tasks() -> None:
    cluster = two_of_one_stage()
    former = cluster.nodes["a"]
    mark, kept = cluster.journal.mark, sorted(former.owned())
    former.stuck = True
    cluster.move(kept[0], "b")
    cluster.until("b runs everything", lambda: sorted(cluster.nodes["b"].owned()) == list(range(TASKS)))
    assert_fenced_in_order(cluster, mark)
    cluster.write(rows_of(range(200)))
    cluster.step()
    former.stuck = False
    cluster.step()
    assert not former.owned()
    assert lost(former) == 1
    cluster.assert_exact()


# --- 4: a second rescale forgot which keys had moved -----------------------------------------------------------------


@pytest.mark.slow
def test_a_task_that_moves_on_before_its_state_has_come_knows_what_each_owner_has() -> None:
    cluster = Cluster(LAZY, plan=stage_of(count_or_delete))
    for name in "abc":
        cluster.add(name)
    cluster.settle()
    cluster.ask(replicas=3)
    moved(cluster, 1, "a")
    cluster.write(numbered(range(1, 400, TASKS), 0))
    cluster.rest()
    moved(cluster, 1, "b")
    cluster.write([*numbered([1, 5, 9], 0), *numbered([13, 17], -1)])
    cluster.rest()
    moved(cluster, 1, "c")
    layers = cluster.coordinator.view.of(TaskId(STAGE, 1)).assigned.layers
    assert [layer.holder for layer in layers][:2] == ["b", "a"]
    cluster.write(numbered([1, 13, 21, 25], 0))  # changed at b, deleted at b, only ever at a
    cluster.rest()
    assert not cluster.journal.requests("bins")
    moved(cluster, 1, "b")
    cluster.write(numbered([1, 5, 13, 17, 21, 29], 0))
    assert_equals_a_batch(cluster, count_or_delete)
