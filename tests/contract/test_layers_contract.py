"""Tail over layers, scratch base, and what is no base: the same on memory and RocksDB (R7, R10, R12)."""

from __future__ import annotations

import pytest

from statemgr.changelog import RestoreSettings, Source, catch_up, restore
from statemgr.control.records import Layer
from statemgr.errors import CodecError, RestoreStalledError, StaleBaseError, StopRequestedError
from statemgr.kafka.ports import TopicSpec
from statemgr.layout import PROGRESS_KEY, changelog_key, scratch_task, store_key, tombstone_key
from statemgr.migration.layered import LayeredStore, begin, record_of, reopen
from statemgr.migration.ports import Found
from statemgr.migration.scratch import build_scratch, drop_scratch
from statemgr.progress import InputProgress, Progress, encode_progress
from statemgr.store import MemoryBackend, RocksBackend, StoreMeta
from statemgr.testing.kafka import FakeKafka
from statemgr.types import TaskId

TOPIC = "app.count.changelog"
TASK = TaskId("count", 0)
LAYERS = (Layer("a", 1),)


def name_of(number):
    return store_key(changelog_key(1, b"k%d" % number))


def progress(high):
    return Progress(1, {"bids": InputProgress(high, high)})


@pytest.fixture(params=["memory", "rocksdb"])
def backend(request, tmp_path):
    made = MemoryBackend() if request.param == "memory" else RocksBackend(tmp_path)
    yield made
    made.close()


class World:
    """A changelog with one writer, and a new owner's backend."""

    def __init__(self, backend):
        self.backend = backend
        self.kafka = FakeKafka()
        self.kafka.admin().create([TopicSpec(TOPIC, 1, {"cleanup.policy": "compact"})], 1, 1)
        self.writer = self.kafka.producer(transactional_id="w", name="w")
        self.writer.init_transactions(1)
        self.commits = 0
        self.last = -1

    @property
    def topic(self):
        return self.kafka.admin().describe([TOPIC], 1)[TOPIC]

    def commit(self, *changes):
        """One transaction; gives the offset of its progress record."""
        self.commits += 1
        offsets = []
        self.writer.begin()
        for number, value in changes:
            self.writer.produce(TOPIC, 0, changelog_key(1, b"k%d" % number), value)
        encoded = encode_progress(progress(self.commits))
        self.writer.produce(TOPIC, 0, PROGRESS_KEY, encoded, on_delivery=offsets.append)
        self.writer.commit(1)
        self.last = offsets[0]
        return offsets[0]

    def meta(self, offset, age_ms=0):
        return StoreMeta(self.topic.topic_id, offset, self.kafka.clock.wall_ms() - age_ms, 2, progress(1))

    def begin(self, offset, age_ms=0):
        return begin(self.backend.open(TASK, 2), LAYERS, self.meta(offset, age_ms))

    def given(self, more):
        with_defaults = {"name": "reader", "clock": self.kafka.clock, "pause": self.kafka.clock.advance}
        return with_defaults | {"settings": RestoreSettings(stall_timeout_s=5, settle_s=1)} | more

    def catch_up(self, store, **more):
        return catch_up(TASK, 2, store, self.kafka, self.topic, **self.given(more))

    def scratch(self, cut, **more):
        return build_scratch(TASK, 2, cut, self.backend, self.kafka, self.topic, **self.given(more))


@pytest.fixture
def world(backend):
    return World(backend)


class TestTail:
    """The changelog behind X, applied to a store whose base is elsewhere."""

    def test_values_and_deletes_behind_x_count_and_nothing_before(self, world):
        x = world.commit((1, b"old"), (2, b"old"), (3, b"old"))
        world.commit((1, b"new"), (2, b"new"))
        world.commit((2, None), (4, b"4"), (4, None), (5, None), (5, b"5"))
        store = world.begin(x)
        report = world.catch_up(store)
        assert store.unresolved([name_of(number) for number in range(7)]) == [name_of(0), name_of(3), name_of(6)]
        found = store.get_many([name_of(number) for number in (1, 2, 4, 5)])
        assert found == [b"new", None, None, b"5"]
        assert (report.source, report.progress, report.store) == (Source.TAIL, progress(3), store)
        assert store.meta().offset >= world.last

    def test_old_values_that_arrive_afterwards_change_nothing(self, world):
        x = world.commit((1, b"old"), (2, b"old"))
        world.commit((1, None), (2, b"new"))
        store = world.begin(x)
        world.catch_up(store)
        store.install([(name_of(1), b"old"), (name_of(2), b"old")])
        store.install_bins(0, 255, [(name_of(1), b"old"), (name_of(2), b"old")])
        store.complete_bins(0, 255)
        assert store.get_many([name_of(1), name_of(2)]) == [None, b"new"]

    def test_a_tail_that_was_interrupted_goes_on_where_it_was(self, world):
        x = world.commit((1, b"old"))
        world.commit((1, None))
        world.commit((2, b"2"))
        store = world.begin(x)
        stops = iter([False] * 2 + [True] * 100)
        one = RestoreSettings(batch_records=1)
        with pytest.raises(StopRequestedError):
            world.catch_up(store, stop=lambda: next(stops), settings=one)
        store.close()
        again = reopen(world.backend.open(TASK, 2))
        assert isinstance(again, LayeredStore)
        world.catch_up(again)
        assert again.get_many([name_of(1), name_of(2)]) == [None, b"2"]

    def test_no_tail_makes_the_store_as_young_as_now(self, world):
        x = world.commit((1, b"1"))
        store = world.begin(x, age_ms=1000)
        assert world.catch_up(store).records == 0
        assert store.meta().committed_at_ms == world.kafka.clock.wall_ms()

    def test_a_base_that_is_too_old_is_refused_and_left_as_it_is(self, world):
        x = world.commit((1, b"1"))
        world.commit((1, None))
        store = world.begin(x, age_ms=86_400_000)
        with pytest.raises(StaleBaseError, match=r"count/0@2 are no base: full restore: the store's last commit is"):
            world.catch_up(store)
        assert store.meta().offset == x

    def test_a_log_that_starts_behind_x_is_a_stale_base(self, world):
        x = world.commit((1, b"1"))
        for _ in range(3):
            world.commit((1, None))
        world.kafka.delete_records(TOPIC, 0, x + 3)
        with pytest.raises(StaleBaseError, match="the log starts at"):
            world.catch_up(world.begin(x))

    def test_a_log_start_that_overtakes_the_reader_is_a_stale_base(self, world):
        x = world.commit((1, b"1"))
        for _ in range(5):
            world.commit((1, None))
        store = world.begin(x)
        cut = []

        def overtake(_):
            if not cut:
                cut.append(world.kafka.delete_records(TOPIC, 0, world.last))

        with pytest.raises(StaleBaseError, match=r"no base any more.*cleanup.policy=compact"):
            world.catch_up(store, on_progress=overtake, settings=RestoreSettings(batch_records=1))

    def test_a_topic_made_anew_is_a_stale_base(self, world):
        x = world.commit((1, b"1"))
        store = world.begin(x)
        world.kafka.recreate(TOPIC)
        world.commit()
        with pytest.raises(StaleBaseError, match="made anew"):
            world.catch_up(store)

    def test_a_record_that_cannot_be_understood_is_named(self, world):
        x = world.commit((1, b"1"))
        world.writer.begin()
        world.writer.produce(TOPIC, 0, b"k", b"1")
        world.writer.commit(1)
        with pytest.raises(CodecError, match="2-byte table id"):
            world.catch_up(world.begin(x))


class TestScratch:
    """The changelog [0, cut] as one more source."""

    def test_it_has_the_last_value_up_to_the_cut(self, world):
        world.commit((1, b"1"), (2, b"2"), (3, b"3"))
        cut = world.commit((1, b"new"), (2, None))
        world.commit((1, b"after"), (3, None), (4, b"4"))
        source = world.scratch(cut)
        answer = source.look_up([name_of(number) for number in range(1, 5)]).result()
        assert answer.found == (b"new", Found.ABSENT, b"3", Found.ABSENT)
        assert source.answers(answer)
        source.close()
        assert world.backend.existing(scratch_task(TASK)) == []

    def test_bins_come_in_parts_and_every_entry_once(self, world, monkeypatch):
        monkeypatch.setattr("statemgr.migration.sources.CHUNK_BYTES", 40)
        cut = world.commit(*((number, b"%d" % number) for number in range(50)))
        source = world.scratch(cut)
        found, cursor = [], b""
        while cursor is not None:
            chunk = source.bins(10, 200, cursor).result()
            assert chunk.complete
            found += chunk.entries
            cursor = chunk.next
        names = {name_of(number): b"%d" % number for number in range(50)}
        assert found == sorted((key, value) for key, value in names.items() if 10 <= key[0] <= 200)
        source.close()

    def test_nothing_before_the_cut_is_an_empty_base(self, world):
        world.commit((1, b"1"))
        source = world.scratch(-1)
        assert source.look_up([name_of(1)]).result().found == (Found.ABSENT,)
        source.close()

    def test_what_a_crash_left_of_it_is_deleted_first(self, world):
        place = scratch_task(TASK)
        left = world.backend.open(place, 1)
        left.write([(name_of(1), b"old")], world.meta(0))
        left.close()
        source = world.scratch(world.commit((2, b"2")))
        assert world.backend.existing(place) == [2]
        assert source.look_up([name_of(1)]).result().found == (Found.ABSENT,)
        drop_scratch(world.backend, TASK)
        assert world.backend.existing(place) == [2]  # in use
        source.close()

    def test_it_starts_over_when_the_log_start_overtakes_it_and_ends_at_the_cut_all_the_same(self, world):
        for number in range(5):
            cut = world.commit((number, b"%d" % number))
        world.commit((4, b"after"))
        moved = []

        def overtake(_):
            if not moved:
                moved.append(world.kafka.delete_records(TOPIC, 0, cut - 1))

        source = world.scratch(cut, on_progress=overtake, settings=RestoreSettings(batch_records=1))
        assert source.look_up([name_of(4)]).result().found == (b"4",)
        source.close()

    def test_a_failure_leaves_nothing_open(self, world):
        world.commit((1, b"1"))
        with pytest.raises(RestoreStalledError):
            world.scratch(1000)
        drop_scratch(world.backend, TASK)
        assert world.backend.existing(scratch_task(TASK)) == []


class TestBases:
    """A store whose migration is incomplete is no base by itself."""

    def restore(self, world, epoch):
        report = restore({TASK: epoch}, world.backend, world.kafka, world.topic, **world.given({}))[TASK]
        with report.store.scan() as pairs:
            found = dict(pairs)
        report.store.close()
        return report.source, found

    def test_an_incomplete_store_of_the_same_epoch_is_replaced(self, world):
        x = world.commit((1, b"1"), (2, b"2"))
        world.begin(x).close()
        assert self.restore(world, 2) == (Source.FULL, {name_of(1): b"1", name_of(2): b"2"})
        store = world.backend.open(TASK, 2)
        assert record_of(store) is None
        store.close()

    def test_an_incomplete_older_store_is_passed_over_for_a_complete_one(self, world):
        x = world.commit((1, b"1"), (2, b"2"))
        complete = world.backend.open(TASK, 1)
        complete.write([(name_of(1), b"1"), (name_of(2), b"2")], world.meta(x))
        complete.close()
        world.begin(x).close()
        world.commit((2, None))
        assert self.restore(world, 3) == (Source.TAIL, {name_of(1): b"1"})
        assert world.backend.existing(TASK) == [3]

    def test_once_complete_it_is_a_base(self, world):
        x = world.commit((1, b"1"), (2, b"2"))
        store = world.begin(x)
        store.install_bins(0, 255, [(name_of(1), b"1"), (name_of(2), b"2")])
        store.complete_bins(0, 255)
        store.close()
        world.commit((2, None))
        assert self.restore(world, 3) == (Source.TAIL, {name_of(1): b"1"})


def test_tombstones_of_a_completed_migration_do_not_come_back_with_a_fork(world):
    x = world.commit((1, b"1"))
    store = world.begin(x)
    store.write([(name_of(1), None)], world.meta(x))
    store.complete_bins(0, 255)
    store.close()
    world.backend.fork(TASK, 2, 3)
    fork = world.backend.open(TASK, 3)
    assert fork.get_many([tombstone_key(name_of(1))]) == [None]
    fork.close()
