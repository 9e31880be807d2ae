"""Disks that run full: what fails, what still works, and who is started again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from statemgr.errors import CorruptStoreError, StoreWriteError
from statemgr.store import StoreMeta
from statemgr.types import TaskId
from tests.simulation.broker import Unanswered
from tests.simulation.disks import Disk, DiskBackend, DiskReaders
from tests.simulation.kinds import Kind
from tests.simulation.run import run_seed
from tests.simulation.schedule import Strike, plan
from tests.simulation.world import World

TASK = TaskId("count", 0)
META = StoreMeta("id", 1, 0, 1, None)
MOVES = 17
"""A seed that moves a task."""


def test_a_store_whose_write_failed_takes_none_until_it_is_opened_again() -> None:
    disk = Disk()
    store = DiskBackend(World(1), disk).open(TASK, 1)
    store.write([(b"a", b"1")], META)
    disk.full = True
    with pytest.raises(StoreWriteError, match="no space"):
        store.write([(b"a", b"2")], META)
    disk.full = False
    with pytest.raises(StoreWriteError, match="no space"):
        store.put_raw([(b"a", b"2")])
    assert store.get_many([b"a"]) == [b"1"]
    again = DiskBackend(World(1), disk).open(TASK, 1)
    again.write([(b"a", b"2")], META)
    assert again.get_many([b"a"]) == [b"2"]


def test_on_a_full_disk_no_store_is_opened_or_made_but_any_can_be_deleted() -> None:
    disk = Disk()
    backend = DiskBackend(World(1), disk)
    backend.open(TASK, 1).close()
    disk.full = True
    with pytest.raises(StoreWriteError):
        backend.open(TASK, 1)
    with pytest.raises(StoreWriteError):
        backend.fork(TASK, 1, 2)
    assert backend.existing(TASK) == [1]
    backend.destroy(TASK, 1)
    assert backend.existing(TASK) == []


def test_a_full_disk_may_also_keep_stores_from_being_read() -> None:
    disk = Disk()
    DiskBackend(World(1), disk).open(TASK, 1)
    readers = DiskReaders(disk, lambda _task, _epoch: False)
    disk.full = True
    readers.open(TASK, 1)
    disk.unreadable = True
    with pytest.raises(CorruptStoreError):
        readers.open(TASK, 1)


def history_of(kind: Kind, **args: object) -> list[str]:
    """What happens when something strikes in the middle of the load."""
    planned = plan(MOVES)
    strikes = (Strike(planned.calm_s / 2, kind, {"whom": 0, **args}),)
    found = run_seed(MOVES, schedule=replace(planned, replicas=1, strikes=strikes, reactions={})).history
    return [f"{event.actor} {event.what}" for event in found]


def test_a_replica_with_a_full_disk_stops_by_name_and_is_started_again() -> None:
    history = history_of(Kind.DISK_FULL, seconds=0.5, unreadable=False)
    stops = [index for index, what in enumerate(history) if "gives up: StoreWriteError" in what]
    assert "task count/" in history[stops[0]]
    assert "r0 starts" in history[stops[-1] :]
    assert any("commits count/" in what for what in history[stops[-1] :])


@pytest.mark.parametrize("at", ["", "flush", "commit"])
@pytest.mark.parametrize("unanswered", Unanswered)
def test_an_absent_broker_ends_nobody(unanswered: Unanswered, at: str) -> None:
    history = history_of(Kind.BROKER_AWAY, seconds=12.0, unanswered=unanswered, at=at)
    away, back = history.index("broker is away"), history.index("broker is back")
    assert not [what for what in history[away:back] if "commits count/" in what and unanswered is not Unanswered.DONE]
    assert any("commits count/" in what for what in history[back:])
    assert not [what for what in history if "gives up" in what]
