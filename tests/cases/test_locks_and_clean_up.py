"""Stores are locked exactly while they are open: scaled up and down, cleaned up, broken at any step, read beside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from statemgr.control.records import Assigned, Layer, Manner, Strategy, control_key, encode_control
from statemgr.control.view import ControlView
from statemgr.errors import StateError, StoreLockedError, StoreWriteError
from statemgr.layout import HOT_KEY, changelog_key, scratch_task, store_directory, store_key
from statemgr.migration.ports import Address
from statemgr.progress import Progress
from statemgr.sidecar.rocks_readers import RocksReaders
from statemgr.sidecar.service import StateService
from statemgr.store import MemoryBackend, RocksBackend, StoreMeta, directories, rocks_backend
from statemgr.testing.kafka import ManualClock
from statemgr.types import TaskId
from tests.cases.clusters import grown, owned_by, running, settled, work
from tests.unit.statemgr.test_rocks import is_locked
from tests.unit.towpath.stage import cluster as cluster_module
from tests.unit.towpath.stage.cluster import STAGE, TASKS, Cluster, Node
from tests.unit.towpath.stage.journal import Arrived, Rows
from tests.unit.towpath.stage.watched import TimedBackend
from towpath.errors import TowpathError

TASK = TaskId(STAGE, 0)
FAULTS = 25
"""Steps of taking over that fail in turn; those that follow are of ordinary work."""


# --- one volume, many replicas --------------------------------------------------------------------------


@pytest.mark.slow
def test_replicas_on_one_volume_come_and_go_five_times_and_none_meets_another_s_lock(tmp_path: Path) -> None:
    cluster = grown("a", keys=range(24), bins=1, state_dir=tmp_path)
    for _ in range(5):
        cluster.add("b")
        work(cluster, running(cluster, "a", "b"))
        settled(cluster)
        cluster.drain("b")
        work(cluster, lambda: cluster.nodes["b"].left)
    cluster.assert_exact()
    require_open_before_rows(cluster)
    cluster.close()
    assert not any(map(is_locked, tmp_path.glob("*/*/*@*")))


def require_open_before_rows(cluster: Cluster) -> None:
    """No row of a task before its store is open under the same epoch, and none under an earlier one afterwards."""
    opened: dict[TaskId, tuple[str, int]] = {}
    for event in cluster.journal.events():
        if isinstance(event, Arrived):
            opened[event.task] = event.replica, event.epoch
        elif isinstance(event, Rows):
            assert opened[event.task] == (event.replica, event.epoch)


# --- clean-up between the steps of an opening -----------------------------------------------------------


@pytest.mark.parametrize("step", ["before", "between"])
@pytest.mark.parametrize("made", [False, True], ids=["new", "old"])
def test_a_clean_up_between_any_two_steps_of_an_opening_leaves_a_store_that_can_be_used(
    step: str, made: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state manager deletes an old copy while its replica opens it to see whether it is of use."""
    backend, readers = RocksBackend(tmp_path), RocksReaders(tmp_path)
    if made:
        backend.open(TASK, 1).close()
    prepare = directories.prepare

    def interrupted(directory: Path) -> None:
        if step == "between":
            prepare(directory)
        readers.destroy(TASK, 1)
        if step == "before":
            prepare(directory)

    with monkeypatch.context() as patch:
        patch.setattr(directories, "prepare", interrupted)
        store = backend.open(TASK, 1)
    assert store.meta() is None
    store.write([(b"\x00key", b"1")], StoreMeta("T", 1, 1, 1, None))
    store.close()
    assert not is_locked(store_directory(tmp_path, TASK, 1))
    again = backend.open(TASK, 1)
    assert again.get_many([b"\x00key"]) == [b"1"]
    again.close()
    readers.destroy(TASK, 1)
    assert backend.existing(TASK) == []
    readers.close()


# --- a fault in any step of taking over -----------------------------------------------------------------


class Counted:
    """A backend whose n-th step fails; its stores' steps count, closing does not."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.left = 0

    def __getattr__(self, name: str) -> Any:
        act = getattr(self.inner, name)
        return self.step(name, act) if callable(act) else act

    def step(self, name: str, act: Any) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            if name != "close":
                self.left -= 1
                if self.left == 0:
                    raise StoreWriteError(f"fault in {name}")
            result = act(*args, **named)
            if name == "filled":
                return [_CountedStore(store, self) for store in result]
            return _CountedStore(result, self) if name == "open" else result

        return call


class _CountedStore:
    def __init__(self, inner: Any, backend: Counted) -> None:
        self._inner = inner
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        return self._backend.step(name, getattr(self._inner, name))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [Strategy.HYBRID, Strategy.REPLAY])
def test_a_fault_in_any_step_of_taking_over_leaves_nothing_open_and_the_next_try_succeeds(
    strategy: Strategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "TimedBackend", lambda inner, clock: TimedBackend(Counted(inner), clock))
    failed_in: set[str] = set()
    for number in range(1, FAULTS):
        cluster = grown("a", strategy=strategy, keys=range(16), bins=1)
        node = cluster.add("b")
        faults: Counted = node.backend.inner  # type: ignore[assignment]
        faults.left = number
        failed = failure_of(cluster, node)
        if faults.left > 0:
            break
        if failed is not None:
            failed_in.add(str(failed))
            assert list(open_stores(faults.inner)) == []
            cluster._start(node)
        settled(cluster)
        cluster.assert_exact()
    assert len(failed_in) >= 3, failed_in


def failure_of(cluster: Cluster, node: Node) -> Exception | None:
    """What ends the replica; None: it took its tasks over."""
    try:
        work(cluster, lambda: running(cluster, "a", "b")() and cluster.settled(), most=200)
    except (StateError, TowpathError) as error:
        node.replica.fail()
        return error
    return None


def open_stores(backend: MemoryBackend) -> Iterator[str]:
    for partition in range(TASKS):
        for task in (TaskId(STAGE, partition), scratch_task(TaskId(STAGE, partition))):
            for epoch in backend.existing(task):
                try:
                    backend.open(task, epoch).close()
                except StoreLockedError:
                    yield f"{task}@{epoch}"


@pytest.mark.parametrize("number", [1, 5, 9])
def test_a_fault_in_a_copy_before_the_move_ends_the_copy_and_not_the_replica(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "TimedBackend", lambda inner, clock: TimedBackend(Counted(inner), clock))
    cluster = grown("a", strategy=Strategy.PRECOPY, keys=range(16), bins=1)
    node = cluster.add("b")
    node.backend.inner.left = number  # type: ignore[attr-defined]
    assert failure_of(cluster, node) is None
    assert node.backend.inner.left <= 0  # type: ignore[attr-defined]
    cluster.assert_exact()


# --- reading beside the owner ---------------------------------------------------------------------------


def test_a_state_manager_never_opens_a_store_as_its_owner_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = RocksBackend(tmp_path)
    owner = backend.open(TASK, 1)
    key = store_key(changelog_key(0, b"7"))
    owner.write([(key, b"1"), (HOT_KEY, b"\x90")], StoreMeta("T", 4, 1, 1, Progress(1, {})))
    owner.close()
    monkeypatch.setattr(rocks_backend, "Rdict", pytest.fail)
    view = ControlView()
    assigned = Assigned(STAGE, 0, 2, "b", waits_for=(), layers=(Layer("a", 1),), manner=Manner(), term=1)
    view.apply(0, control_key(assigned), encode_control(assigned))
    readers = RocksReaders(tmp_path)
    service = StateService(readers, lambda: view, ManualClock(), "a")
    address = Address(TASK, Layer("a", 1), 2)
    directory = store_directory(tmp_path, TASK, 1)
    before = {entry.name for entry in directory.iterdir()}
    service.describe(address, 4, 1.0)
    assert service.look_up(address, 4, [key], 1.0).found == (b"1",)
    service.hot(address, 4, b"", 1.0)
    service.bins(address, 4, 0, 255, b"", 1.0)
    service.filter(address, 4, 1.0)
    service.get(TASK, 0, [b"7"], 1.0)
    service.tidy()
    assert not is_locked(directory)
    assert {entry.name for entry in directory.iterdir()} == before
    service.close()


def test_an_owner_opens_its_store_while_it_is_read(tmp_path: Path) -> None:
    backend, readers = RocksBackend(tmp_path), RocksReaders(tmp_path)
    backend.open(TASK, 1).close()
    reader = readers.open(TASK, 1)
    owner = backend.open(TASK, 1)
    owner.write([(b"\x00key", b"1")], StoreMeta("T", 1, 1, 1, None))
    reader.catch_up()
    assert reader.get_many([b"\x00key"]) == [b"1"]
    owner.close()
    reader.close()
    readers.close()


def test_a_task_whose_holder_is_gone_is_not_waited_for_by_a_lock() -> None:
    """A newcomer opens its own store under its own epoch: whatever the former owner holds is no obstacle."""
    cluster = grown("a", "b")
    partition = next(iter(cluster.nodes["a"].owned()))
    cluster.nodes["a"].asleep = True
    cluster.cut.add("a")
    work(cluster, owned_by(cluster, partition, "b"))
    assert list(open_stores(cluster.nodes["a"].backend.inner))  # type: ignore[arg-type]
