"""Whatever belongs to a task goes with it: after any loss no registry of its former owner has a trace of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from statemgr.control.records import Strategy
from statemgr.errors import NoSuchCopyError, ProducerLostError, StoreClosedError, StoreLockedError
from statemgr.layout import scratch_task
from statemgr.store import MemoryBackend, RocksBackend, StoreBackend
from statemgr.types import TaskId
from tests.cases.clusters import KEYS, grown, moved, owned_by, require_outputs, running, settled, work
from tests.unit.towpath.stage.cluster import STAGE, TASKS, Cluster, Node, rows_of
from towpath.testing.views import committed_state


def traces(cluster: Cluster, node: Node) -> Iterator[str]:
    """What a replica has of tasks that it does not run."""
    replica, owned = node.replica, set(node.owned())
    consumer, arrivals = replica._consumer, node.coordinated._arrivals
    processor = replica._processor
    found = {
        "reads": {at.partition for at in consumer._positions},
        "has paused": {at.partition for at in consumer._paused},
        "rests": {at.partition for at in replica._resting},
        "processes": set(processor._tasks),
        "has state of": set(processor._chain.tasks) if processor._chain is not None else set(),
        "watches": set(processor._gate.watched) if processor._gate is not None else set(),
        "keeps records of": {at.partition for at in processor._overflow._kept},
        "shows": series(node),
        "has open": open_stores(node.backend.inner),
    }
    for what, partitions in found.items():
        if partitions - owned:
            yield f"{node.name} {what} {partitions - owned}"
    if arrivals._arriving or arrivals._opener._slots or arrivals._opener._delayed:
        yield f"{node.name} has tasks on their way"
    if cluster.coordinator.facts().manner(STAGE).strategy is not Strategy.STANDBY and arrivals._preparations._prepared:
        yield f"{node.name} has tasks prepared"


def series(node: Node) -> set[int]:
    """Partitions of which a replica exports a figure."""
    metrics = node.metrics.registry.collect()
    labels = [sample.labels for metric in metrics for sample in metric.samples]
    return {int(each["partition"]) for each in labels if "partition" in each}


def open_stores(backend: StoreBackend) -> set[int]:
    """Partitions whose store can't be opened, since it is open."""
    found = set()
    for partition in range(TASKS):
        task = TaskId(STAGE, partition)
        for each in (task, scratch_task(task)):
            for epoch in backend.existing(each):
                try:
                    backend.open(each, epoch).close()
                except StoreLockedError:
                    found.add(partition)
    return found


def planned(cluster: Cluster) -> None:
    for partition in list(cluster.nodes["a"].owned())[:1]:
        moved(cluster, partition, "b")


def fenced(cluster: Cluster) -> None:
    """The producer is lost and nobody takes over."""
    cluster.kafka.fail_next("commit", ProducerLostError("fenced"), client="a")
    work(cluster, lambda: not cluster.nodes["a"].owned())


def slept(cluster: Cluster) -> None:
    """Silent until others have everything, then awake again."""
    cluster.nodes["a"].asleep = True
    cluster.until("b owns everything", lambda: len(cluster.nodes["b"].owned()) == TASKS, 20.0)
    cluster.write(rows_of(range(KEYS)))
    cluster.nodes["a"].asleep = False


def taken_while_filling(cluster: Cluster) -> None:
    """Moved there and away again before its state was there."""
    partition = next(iter(cluster.nodes["b"].owned()))
    moved(cluster, partition, "a")
    cluster.write(rows_of(range(KEYS)))
    cluster.step()
    moved(cluster, partition, "b")


LOSSES: list[Callable[[Cluster], None]] = [planned, fenced, slept, taken_while_filling]


@pytest.mark.parametrize("strategy", [Strategy.HYBRID, Strategy.LAZY, Strategy.PRECOPY, Strategy.REPLAY])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__)
def test_after_a_loss_nothing_is_left_of_the_task(loss: Callable[[Cluster], None], strategy: Strategy) -> None:
    cluster = grown("a", "b", strategy=strategy)
    loss(cluster)
    work(cluster, lambda: len(cluster.owners()) == TASKS)
    cluster.rest()
    cluster.until("everything is in its place", lambda: running(cluster, "a", "b")() and cluster._in_place(), 60.0)
    for _ in range(20):
        cluster.step()
    assert [line for node in cluster.nodes.values() for line in traces(cluster, node)] == []
    require_outputs(cluster)


def test_a_lost_producer_leaves_nothing_at_the_very_moment() -> None:
    cluster = grown("a", "b")
    replica = cluster.nodes["a"].replica
    replica.drop("fenced")
    assert [*traces(cluster, cluster.nodes["a"])] == []
    cluster.assert_exact()


def test_copies_that_a_task_left_are_deleted_and_not_asked_any_more_once_it_is_complete_elsewhere() -> None:
    cluster = grown("a", "b")
    partition = next(iter(cluster.nodes["a"].owned()))
    moved(cluster, partition, "b")
    settled(cluster)
    cluster.until("its copy is gone", lambda: not cluster.nodes["a"].backend.existing(TaskId(STAGE, partition)))
    with pytest.raises(NoSuchCopyError, match=r"no copy of count/\d; its owner is b"):
        cluster.services["a"].get(TaskId(STAGE, partition), 0, [b"1"], 1.0)
    mark = cluster.journal.mark
    work(cluster, lambda: cluster.journal.mark > mark + 50)
    asked = [request for request in cluster.journal.requests(since=mark) if request.address.task.partition == partition]
    assert asked == []


@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "rocksdb"])
def test_the_former_owner_finds_no_key_that_moved_and_can_write_none(on_disk: bool, tmp_path: Path) -> None:
    cluster = grown("a", "b", keys=range(40), state_dir=tmp_path if on_disk else None)
    partition = next(iter(cluster.nodes["a"].owned()))
    former = cluster.task(partition).state
    assert former is not None
    moved(cluster, partition, "b")
    settled(cluster)
    owned = [task.state for task in cluster.nodes["a"].replica.owned.values() if task.state is not None]
    keys = {int(key) for key in committed_state(owned, cluster.plan.tables[0])}
    assert keys
    assert partition not in {key % TASKS for key in keys}
    with pytest.raises(StoreClosedError):
        former.store.get_many([b"x"])
    with pytest.raises(StoreClosedError):
        former.store.put_raw([(b"x", b"y")])
    assert isinstance(cluster.nodes["a"].backend.inner, RocksBackend if on_disk else MemoryBackend)
    cluster.assert_exact()
    cluster.close()


def test_a_task_that_leaves_and_comes_back_has_one_series_at_one_replica() -> None:
    cluster = grown("a", "b")
    partition = next(iter(cluster.nodes["a"].owned()))
    for name in ("b", "a", "b"):
        moved(cluster, partition, name)
        work(cluster, lambda name=name: partition in series(cluster.nodes[name]))
        shown = [node.name for node in cluster.nodes.values() if partition in series(node)]
        assert shown == [name]
    work(cluster, owned_by(cluster, partition, "b"))
