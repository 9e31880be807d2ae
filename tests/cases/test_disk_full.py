"""The disk of a replica runs full: it stops by name, loses nothing, and goes on once there is room.

On a real file system of a few megabytes, which takes the right to mount one.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from statemgr.control.records import Strategy
from statemgr.errors import StateError, StoreWriteError
from statemgr.sidecar.rocks_readers import RocksReaders
from statemgr.store import RocksBackend, StoreMeta, directories
from statemgr.store.rocks_errors import open_error
from statemgr.types import TaskId
from tests.cases.clusters import grown, running, settled, work
from tests.unit.towpath.stage.cluster import STAGE, TASKS, Cluster, Node
from towpath.errors import TowpathError

DISK_MIB = 12
TASK, OTHER, NEW = TaskId(STAGE, 0), TaskId(STAGE, 1), TaskId(STAGE, 2)


def meta(offset: int) -> StoreMeta:
    return StoreMeta("T", offset, 0, 1, None)


class SmallDisk:
    """A file system that can be filled."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self) -> None:
        """Leave not a byte."""
        with self._filler.open("wb", buffering=0) as file:
            for size in (1 << 16, 1 << 10, 1):
                with contextlib.suppress(OSError):
                    while file.write(b"x" * size):
                        pass

    def free(self) -> None:
        """Give it all back."""
        self._filler.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("may not mount a small disk")
    try:
        yield SmallDisk(tmp_path)
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


@pytest.fixture
def backend(disk: SmallDisk) -> Iterator[RocksBackend]:
    """Stores of two tasks, the first one open."""
    backend = RocksBackend(disk.path)
    for task in (TASK, OTHER):
        backend.open(task, 1).write([(b"key", b"1")], meta(1))
    backend.close()
    backend.open(TASK, 1)
    yield backend
    backend.close()


def write_until_full(backend: RocksBackend) -> None:
    store = backend._open[TASK, 1]
    for number in range(1000):
        store.write([(b"key", b"%d" % number * 1000)], meta(2 + number))


# --- stores ---------------------------------------------------------------------------------------------


def test_a_failed_write_leaves_entries_and_meta_as_they_were(disk: SmallDisk, backend: RocksBackend) -> None:
    disk.fill()
    with pytest.raises(StoreWriteError, match=r"No space left.*check free space"):
        write_until_full(backend)
    store = backend._open[TASK, 1]
    found = store.meta()
    assert found is not None
    value = b"1" if found.offset == 1 else b"%d" % (found.offset - 2) * 1000
    assert store.get_many([b"key"]) == [value]


def test_a_store_whose_write_failed_is_closed_quietly_and_is_whole_when_there_is_room(
    disk: SmallDisk, backend: RocksBackend
) -> None:
    disk.fill()
    with pytest.raises(StoreWriteError):
        write_until_full(backend)
    before = backend._open[TASK, 1].meta()
    disk.free()
    with pytest.raises(StoreWriteError):  # not before it is opened again
        backend._open[TASK, 1].write([], meta(9))
    backend._open[TASK, 1].close()
    again = backend.open(TASK, 1)
    assert again.meta() == before
    again.write([(b"key", b"2")], meta(9))
    assert again.meta() == meta(9)


def test_a_store_that_there_is_no_room_to_open_is_not_taken_for_a_broken_one(
    disk: SmallDisk, backend: RocksBackend
) -> None:
    """A broken one is deleted."""
    disk.fill()
    with pytest.raises(StoreWriteError, match=r"No space left.*check free space"):
        backend.open(OTHER, 1)
    disk.free()
    assert backend.open(OTHER, 1).get_many([b"key"]) == [b"1"]


def test_a_store_that_there_is_no_room_to_make_is_named(disk: SmallDisk, backend: RocksBackend) -> None:
    disk.fill()
    with pytest.raises(StoreWriteError, match=rf"{NEW}@1.*No space left.*check free space"):
        backend.open(NEW, 1)
    disk.free()
    assert backend.open(NEW, 1).meta() is None


def test_a_copy_that_there_is_no_room_to_make_is_named_and_made_later(disk: SmallDisk, backend: RocksBackend) -> None:
    disk.fill()
    with pytest.raises(StoreWriteError, match=r"No space left.*check free space"):
        backend.fork(OTHER, 1, 2)
    disk.free()
    backend.fork(OTHER, 1, 2)
    assert backend.open(OTHER, 2).get_many([b"key"]) == [b"1"]


@pytest.mark.parametrize("step", ["mark_again", "write_mark"])
def test_the_last_step_of_a_store_or_copy_finds_no_room(
    disk: SmallDisk, backend: RocksBackend, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The same where others have filled the disk since the step before."""
    make = {"mark_again": lambda: backend.open(NEW, 1).close(), "write_mark": lambda: backend.fork(OTHER, 1, 2)}[step]
    original = getattr(directories, step)

    def filled(directory: Path) -> None:
        (directory / directories.MARK_NAME).unlink(missing_ok=True)
        disk.fill()
        original(directory)

    with monkeypatch.context() as patch:
        patch.setattr(directories, "prepare", lambda directory: directory.mkdir(exist_ok=True))
        patch.setattr(directories, step, filled)
        with pytest.raises(StoreWriteError, match=r"No space left.*check free space"):
            make()
    disk.free()
    make()


def test_a_store_on_a_full_disk_can_be_read_beside_its_owner_and_deleted(
    disk: SmallDisk, backend: RocksBackend
) -> None:
    readers = RocksReaders(disk.path)
    disk.fill()
    reader = readers.open(OTHER, 1)
    assert reader.get_many([b"key"]) == [b"1"]
    reader.close()
    readers.destroy(OTHER, 1)
    assert backend.existing(OTHER) == []
    readers.close()


@pytest.mark.parametrize(
    "text", ["IO error: No space left on device: While appending", "IO error: Disk quota exceeded"]
)
def test_an_open_without_room_is_told_apart_from_one_of_a_broken_store(text: str) -> None:
    assert isinstance(open_error(Exception(text), TASK, 1, "there"), StoreWriteError)
    assert not isinstance(open_error(Exception("Corruption: bad block"), TASK, 1, "there"), StoreWriteError)


# --- replicas -------------------------------------------------------------------------------------------


def end_of(cluster: Cluster, node: Node) -> Exception:
    """What ends the replica; its own end must not hide it."""
    try:
        work(cluster, lambda: False)
    except (StateError, TowpathError) as error:
        node.replica.fail()
        return error
    raise AssertionError("unreachable")


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [Strategy.HYBRID, Strategy.REPLAY])
def test_a_replica_stops_by_name_keeps_its_stores_and_goes_on_when_there_is_room(
    strategy: Strategy, disk: SmallDisk
) -> None:
    cluster = grown("a", strategy=strategy, keys=range(16), bins=1, state_dir=disk.path)
    node = cluster.nodes["a"]
    disk.fill()
    ended = end_of(cluster, node)
    assert isinstance(ended, StoreWriteError), ended
    assert "No space left" in str(ended)
    kept = {TaskId(STAGE, number): node.backend.existing(TaskId(STAGE, number)) for number in range(TASKS)}
    cluster._start(node)
    ended = end_of(cluster, node)
    assert isinstance(ended, StoreWriteError), ended
    assert {task: node.backend.existing(task) for task in kept} == kept
    disk.free()
    cluster._start(node)
    work(cluster, running(cluster, "a"))
    settled(cluster)
    cluster.assert_exact()
    cluster.close()
