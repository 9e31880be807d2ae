"""A worker's time with a partition: what it reads is the newest, what it writes is an exact image of the changelog."""

from __future__ import annotations

import msgspec
import pytest

from statemgr.control.records import Layer, Manner, Strategy
from statemgr.faust.bounded import BoundedClient
from statemgr.faust.decide import witness
from statemgr.faust.errors import StateUnavailableError
from statemgr.faust.holder import CopyService
from statemgr.faust.images import Record, Values, store_key
from statemgr.faust.limits import LIMITS, REBUILD_LIMIT_S
from statemgr.faust.tenure import Tenure, Waits
from statemgr.layout import HOT_KEY
from statemgr.migration.job import MigrationJob
from statemgr.migration.layered import begin
from statemgr.migration.sources import ScratchSource, UsableLayer
from statemgr.sidecar.direct import DirectStateClient
from statemgr.sidecar.readers import MemoryReaders
from statemgr.store import MemoryBackend, StoreMeta
from statemgr.testing.clock import ManualClock
from statemgr.types import TaskId
from tests.unit.statemgr.migration.world import at_once

TASK = TaskId("app-counts-changelog", 0)
OLD, NEW = Layer("a", 1), 2
CUT = 9


class World:
    """A former owner with some keys, and a newcomer over its copy."""

    def __init__(self, keys: int = 20) -> None:
        self.clock = ManualClock()
        self.waits = Waits()
        self.former = MemoryBackend()
        store = self.former.open(TASK, OLD.epoch)
        entries = [(store_key(b"%d" % number), b"old-%d" % number) for number in range(keys)]
        store.write(entries, StoreMeta("w", CUT, self.clock.wall_ms(), OLD.epoch, None))
        store.close()
        self.services = {OLD.holder: CopyService(MemoryReaders(self.former), self.clock, OLD.holder)}
        self.backend = MemoryBackend()
        self.scratches = 0

    def fresh(self, *, claims: bool = True) -> Tenure:
        return self._tenure(self.backend.open(TASK, NEW), None, claims=claims)

    def over_the_former(self, strategy: Strategy = Strategy.LAZY) -> Tenure:
        meta = StoreMeta("w", CUT, self.clock.wall_ms(), NEW, None)
        store = begin(self.backend.open(TASK, NEW), [OLD], meta)
        job = MigrationJob(
            TASK,
            NEW,
            store,
            [UsableLayer(OLD, CUT, least=CUT)],
            BoundedClient(DirectStateClient(self.services), CUT),
            self.clock,
            Manner(strategy),
            at_once,
            self.scratch,
            LIMITS,
        )
        return self._tenure(store, job)

    def scratch(self) -> ScratchSource:
        """The changelog read again: it says of every key what the former owner's copy says."""
        self.scratches += 1
        store = MemoryBackend().open(TASK, NEW)
        store.write([(store_key(b"%d" % n), b"old-%d" % n) for n in range(20)], StoreMeta("", CUT, 0, NEW, None))
        return ScratchSource(store, NEW, CUT)

    def zombie_writes(self) -> None:
        """The former owner goes on, though the partition is another's."""
        store = self.former.open(TASK, OLD.epoch)
        store.write([(store_key(b"3"), b"zombie")], StoreMeta("w", CUT + 1, 0, OLD.epoch, None))
        store.close()

    def _tenure(self, store, job, *, claims: bool = True) -> Tenure:
        def sleep(seconds: float) -> None:
            self.clock.advance(seconds)

        return Tenure(TASK, NEW, NEW, store, job, Values(), self.clock, self.waits, claims=claims, sleep=sleep)


def write(tenure: Tenure, key: bytes, value: bytes | None, offset: int) -> None:
    tenure.changes.acknowledged(tenure.changes.sent(key, value), offset, 1000 + offset)


def test_what_is_not_acknowledged_is_read_but_not_stored():
    tenure = World().fresh()
    tenure.changes.sent(b"k", b"1")
    tenure.flush()
    assert tenure.get(b"k") == b"1"
    assert tenure.offset is None
    assert tenure.store.get_many([store_key(b"k")]) == [None]


def test_a_flush_says_up_to_where_the_store_is_complete_and_proves_it():
    tenure = World().fresh()
    write(tenure, b"k", b"1", 4)
    write(tenure, b"l", b"2", 6)
    tenure.flush()
    meta = tenure.store.meta()
    assert (meta.offset, meta.topic_id) == (6, witness(1006, b"l", b"2"))
    assert tenure.offset == 6
    assert tenure.get(b"k") == b"1"


def test_a_local_change_moves_no_offset():
    tenure = World().fresh()
    write(tenure, b"k", b"1", 4)
    tenure.changes.local(b"k", None)
    tenure.flush()
    assert tenure.get(b"k") is None
    assert tenure.offset == 4


def test_with_transactions_nothing_is_claimed():
    tenure = World().fresh(claims=False)
    write(tenure, b"k", b"1", 4)
    tenure.flush()
    assert tenure.get(b"k") == b"1"
    assert tenure.offset is None
    assert tenure.store.meta() is None


def test_a_frozen_store_takes_nothing_until_the_partition_is_given_back():
    tenure = World().fresh()
    write(tenure, b"k", b"1", 4)
    tenure.freeze()
    write(tenure, b"k", b"2", 5)
    tenure.flush()
    assert tenure.offset == 4
    assert tenure.get(b"k") == b"2"
    tenure.thaw()
    assert tenure.offset == 5


def test_what_recovery_reads_twice_changes_nothing():
    tenure = World().fresh()
    write(tenure, b"k", b"1", 4)
    tenure.flush()
    tenure.recovered([Record(b"k", b"0", 3, 0), Record(b"k", b"1", 4, 0)])
    assert tenure.get(b"k") == b"1"
    assert tenure.offset == 4


def test_a_key_that_is_elsewhere_is_fetched_when_it_is_read():
    world = World()
    tenure = world.over_the_former()
    assert tenure.get(b"7") == b"old-7"
    assert tenure.get(b"unknown") is None
    assert world.waits.count == 2
    assert not tenure.complete


def test_the_changelog_s_tail_wins_over_the_copy():
    tenure = World().over_the_former()
    tenure.recovered([Record(b"3", b"new", CUT + 1, 0), Record(b"4", None, CUT + 2, 0)])
    assert tenure.get(b"3") == b"new"
    assert tenure.get(b"4") is None


def test_bins_that_arrive_leave_alone_what_is_newer():
    world = World()
    tenure = world.over_the_former(Strategy.BLOCK)
    write(tenure, b"3", b"new", CUT + 1)
    write(tenure, b"4", None, CUT + 2)
    tenure.flush()
    tenure.require_all()
    assert tenure.complete
    expected = {b"%d" % number: b"old-%d" % number for number in range(20)} | {b"3": b"new"}
    del expected[b"4"]
    assert dict(tenure.items()) == expected


def test_items_are_all_items_whatever_is_still_elsewhere_or_unwritten():
    tenure = World().over_the_former()
    tenure.changes.sent(b"3", b"newer")
    tenure.changes.sent(b"4", None)
    tenure.changes.sent(b"more", b"1")
    found = dict(tenure.items())
    assert len(found) == 20
    assert (found[b"3"], found[b"more"], b"4" in found) == (b"newer", b"1", False)


def test_a_silent_holder_is_given_up_and_the_changelog_read_instead():
    world = World()
    tenure = world.over_the_former()
    world.services.clear()
    assert tenure.get(b"7") == b"old-7"
    assert world.scratches == 1
    assert LIMITS.patience_s <= world.waits.longest_s < 2 * LIMITS.patience_s
    assert tenure.get(b"8") == b"old-8"
    assert world.waits.longest_s < 2 * LIMITS.patience_s


def test_a_copy_that_a_stopped_owner_writes_on_is_given_up_at_once():
    world = World()
    tenure = world.over_the_former()
    world.zombie_writes()
    assert tenure.get(b"3") == b"old-3"
    assert world.scratches == 1
    assert world.waits.longest_s < LIMITS.patience_s


def test_whose_partition_has_gone_on_to_another_gets_no_state():
    world = World()
    tenure = world.over_the_former()
    store = world.former.open(TASK, NEW + 1)
    store.write([(store_key(b"3"), b"later")], StoreMeta("w", 20, 0, NEW + 1, None))
    store.close()
    with pytest.raises(StateUnavailableError, match="belongs to another worker"):
        tenure.get(b"3")


def test_waiting_for_the_changelog_ends_with_an_error_in_the_end():
    world = World()
    tenure = world.over_the_former()
    world.services.clear()

    def never() -> ScratchSource:
        raise StateUnavailableError("no broker")

    tenure.job._builder._build = never
    with pytest.raises(StateUnavailableError, match=f"{REBUILD_LIMIT_S:g} s"):
        tenure.get(b"3")


def test_the_hottest_keys_are_noted_for_the_next_owner():
    tenure = World().fresh()
    for key, uses in ((b"cold", 1), (b"hot", 5), (b"warm", 3)):
        for _ in range(uses):
            tenure.get(key)
    tenure.note_hot()
    (data,) = tenure.store.get_many([HOT_KEY])
    assert msgspec.msgpack.decode(data) == [store_key(key) for key in (b"hot", b"warm", b"cold")]
