"""Whom a state manager beside a Faust worker answers."""

from __future__ import annotations

import pytest

from statemgr.control.records import Layer
from statemgr.errors import HolderUnavailableError, StaleRequestError
from statemgr.faust.holder import CopyService, HolderSettings
from statemgr.faust.images import store_key
from statemgr.migration.ports import Address
from statemgr.sidecar.readers import MemoryReaders
from statemgr.store import MemoryBackend, StoreMeta
from statemgr.testing.clock import ManualClock
from statemgr.types import TaskId

TASK = TaskId("app-counts-changelog", 0)
KEY = store_key(b"k")
META = StoreMeta("w", 5, 0, 3, None)


class World:
    def __init__(self) -> None:
        self.backend = MemoryBackend()
        self.clock = ManualClock()
        self.service = CopyService(MemoryReaders(self.backend), self.clock, "a")
        self.own(3)

    def own(self, epoch: int) -> None:
        store = self.backend.open(TASK, epoch)
        store.write([(KEY, b"1")], META)
        store.close()

    def look(self, epoch: int, target: int, holder: str = "a"):
        return self.service.look_up(Address(TASK, Layer(holder, epoch), target), -1, [KEY], 0.0).found


def test_whoever_has_taken_the_partition_over_is_answered():
    assert World().look(epoch=3, target=4) == (b"1",)


def test_who_has_lost_it_again_to_this_worker_is_told_so():
    world = World()
    world.own(5)
    with pytest.raises(StaleRequestError, match="since 5") as caught:
        world.look(epoch=3, target=4)
    assert not caught.value.later


def test_a_later_owner_may_still_ask_for_an_older_copy():
    world = World()
    world.own(5)
    assert world.look(epoch=3, target=6) == (b"1",)


def test_another_holder_s_copies_are_not_answered_for():
    with pytest.raises(HolderUnavailableError, match="not of b"):
        World().look(epoch=3, target=4, holder="b")


def test_it_knows_when_somebody_has_asked_last():
    world = World()
    assert world.service.asked_s == float("-inf")
    world.clock.advance(7.0)
    world.look(epoch=3, target=4)
    assert world.service.asked_s == world.clock.monotonic_s()


def test_nothing_is_deleted_by_it():
    """Only the worker knows from the announcements what nobody needs any more."""
    world = World()
    world.own(5)
    assert world.service.tidy() == []


def test_it_is_reached_under_a_name_where_it_listens_everywhere(tmp_path):
    assert HolderSettings(tmp_path, "127.0.0.1").reachable_host == "127.0.0.1"
    assert HolderSettings(tmp_path, "0.0.0.0").reachable_host not in {"", "0.0.0.0"}
    assert HolderSettings(tmp_path, "0.0.0.0", advertise="worker-1").reachable_host == "worker-1"
