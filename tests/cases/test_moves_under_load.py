"""Commits, broker trouble and standing still in the middle of moves: nothing is lost, doubled, or done by two."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import ClassVar

import pytest

from statemgr.control.records import Strategy
from statemgr.errors import ProducerLostError, RetryableKafkaError
from statemgr.kafka.ports import Message
from statemgr.types import TaskId
from tests.cases.clusters import KEYS, Standstill, grown, moved, owned_by, running, settled, work
from tests.unit.towpath.stage import cluster as cluster_module
from tests.unit.towpath.stage.beside import Held
from tests.unit.towpath.stage.cluster import STAGE, TASKS, Node, rows_of
from tests.unit.towpath.stage.watched import WatchedProcessor


def losses(node: Node) -> float:
    labels = {"stage": STAGE, "replica": node.name}
    return node.metrics.registry.get_sample_value("towpath_producer_lost_total", labels) or 0.0


# --- commits while tasks come and go ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_thirty_moves_with_a_commit_for_every_batch_cost_nobody_its_ownership() -> None:
    cluster = grown("a", "b", "c")
    generator = random.Random(4059)
    for _ in range(30):
        moved(cluster, generator.randrange(TASKS), generator.choice("abc"))
    assert [losses(node) for node in cluster.nodes.values()] == [0, 0, 0]
    cluster.assert_exact()


@pytest.mark.parametrize("answer", ["never sent", "lost"])
@pytest.mark.parametrize("error", [RetryableKafkaError, ProducerLostError])
@pytest.mark.parametrize("client", ["a", "b"])
def test_a_commit_without_an_answer_during_a_move_delays_nobody_else(
    client: str, error: Callable[[str], Exception], answer: str
) -> None:
    cluster = grown("a", "b", "c")
    partition = next(iter(cluster.nodes["a"].owned()))
    bystander = next(iter(cluster.nodes["c"].owned()))
    cluster.move(partition, "b")
    for skip in range(3):
        cluster.kafka.fail_next("commit", error("no answer"), client=client, skip=skip, after=answer == "lost")
    before = cluster.nodes["c"].replica.owned[bystander].positions["bids"]
    for _ in range(40):
        cluster.write(rows_of(range(TASKS)))
        cluster.step()
    assert cluster.nodes["c"].replica.owned[bystander].positions["bids"] >= before + 35
    work(cluster, owned_by(cluster, partition, "b"))
    began_s = cluster.clock.monotonic_s()
    cluster.rest()
    assert cluster.clock.monotonic_s() - began_s < 20.0
    cluster.assert_exact()


@pytest.mark.slow
@pytest.mark.parametrize("moment", range(20))
def test_at_least_once_puts_out_nothing_twice_where_the_releasing_commit_succeeded(
    moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOWPATH_STRATEGIES_GUARANTEE", "at-least-once")
    generator = random.Random(moment)
    cluster = grown("a", keys=range(24))
    for _ in range(generator.randrange(12)):
        cluster.write(rows_of(generator.choices(range(24), k=3)))
        cluster.step()
    cluster.add("b")
    work(cluster, running(cluster, "a", "b"))
    cluster.assert_exact()


# --- what was read before ---------------------------------------------------------------------------------------------


class Audit(WatchedProcessor):
    """Writes down which offsets came to which owner."""

    seen: ClassVar[dict[tuple[int, int], list[int]]] = defaultdict(list)
    owners: ClassVar[dict[tuple[int, int], set[str]]] = defaultdict(set)

    def process(self, messages: Sequence[Message], *, gather: bool = False) -> None:
        for message in messages:
            task = self._tasks[message.partition()]
            self.seen[message.partition(), task.epoch].append(message.offset())
            self.owners[message.partition(), task.epoch].add(self._replica)
        super().process(messages, gather=gather)


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch) -> type[Audit]:
    monkeypatch.setattr(cluster_module, "WatchedProcessor", Audit)
    Audit.seen.clear()
    Audit.owners.clear()
    return Audit


def test_records_that_were_read_before_a_move_are_not_processed_after_it(audit: type[Audit]) -> None:
    """By partition and epoch: one owner, offsets without a gap or a repetition, also where a task comes back."""
    cluster = grown("a", "b", strategy=Strategy.BLOCK)
    for name in ("b", "a", "b", "a"):
        for partition in range(TASKS):
            moved(cluster, partition, name)
    cluster.assert_exact()
    for partition in range(TASKS):
        epochs = sorted(epoch for at, epoch in audit.seen if at == partition)
        assert len(epochs) >= 4
        offsets = [offset for epoch in epochs for offset in audit.seen[partition, epoch]]
        assert offsets == list(range(len(offsets)))
        assert all(len(audit.owners[partition, epoch]) == 1 for epoch in epochs)


def test_what_a_replica_had_read_when_it_lost_its_producer_is_read_again_from_the_last_commit(
    audit: type[Audit],
) -> None:
    cluster = grown("a")
    cluster.write(rows_of(range(KEYS)))
    cluster.kafka.fail_next("commit", ProducerLostError("fenced"), client="a")
    cluster.until("it was lost", lambda: losses(cluster.nodes["a"]) == 1)
    cluster.assert_exact()
    for partition in range(TASKS):
        offsets = audit.seen[partition, 1]
        again = offsets.index(KEYS // TASKS, KEYS // TASKS + 1)
        assert offsets[again:] == list(range(KEYS // TASKS, 2 * KEYS // TASKS))


# --- plans that the log has overtaken ---------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", [Strategy.REPLAY, Strategy.HYBRID, Strategy.BLOCK, Strategy.PRECOPY])
def test_a_task_that_is_taken_away_while_it_is_opened_is_dropped_by_its_epoch(
    strategy: Strategy,
) -> None:
    spawn = Held()
    cluster = grown("a", "c", strategy=strategy, spawn=spawn)
    node = cluster.add("b")
    work(cluster, running(cluster, "a", "b", "c"))
    settled(cluster)
    partition = next(iter(cluster.nodes["a"].owned()))
    spawn.holds = True
    cluster.move(partition, "b")
    work(cluster, lambda: cluster.coordinator.view.of(TaskId(STAGE, partition)).owner == "b")
    for _ in range(30):
        cluster.step()
    assert partition not in node.owned()
    cluster.move(partition, "c")
    work(cluster, lambda: cluster.coordinator.view.of(TaskId(STAGE, partition)).owner == "c")
    spawn.holds = False
    spawn.run()
    work(cluster, owned_by(cluster, partition, "c"))
    assert not {at for at in node.replica._consumer._positions if at.partition == partition}
    assert losses(node) == 0
    cluster.assert_exact()


# --- standing still within a transaction ------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["begin", "produce_batch", "produce", "send_offsets", "flush", "commit"])
def test_an_owner_that_sleeps_in_its_transaction_while_others_take_over_commits_nothing_and_goes_on(call: str) -> None:
    cluster = grown("a", "b")
    node, replica = cluster.nodes["a"], cluster.nodes["a"].replica
    standstill = Standstill(cluster, node)
    cluster.kafka.on_call(lambda client, name: standing(standstill, client, name, call))
    cluster.write(rows_of(range(KEYS)))
    standstill.begin()
    cluster.kafka.on_call(None)
    cluster.until("b owns everything", lambda: len(cluster.nodes["b"].owned()) == TASKS)
    cluster.write(rows_of(range(0, KEYS, 2)))
    cluster.rest()
    before = cluster.output()
    standstill.go_on()
    assert cluster.output() == before
    assert (losses(node), node.replica) == (1, replica)
    work(cluster, running(cluster, "a", "b"))
    cluster.assert_exact()


def standing(standstill: Standstill, client: str, called: str, call: str) -> None:
    if (client, called) == ("a", call) and not standstill.lasts:
        standstill.here()
