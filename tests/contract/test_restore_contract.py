"""Restore from base and changelog: the same on memory and RocksDB (rules R6, R8, R10, R12)."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemgr.changelog import RestoreSettings, Source, begin, restore
from statemgr.errors import (
    CodecError,
    KafkaUnavailableError,
    RestoreStalledError,
    RetryableKafkaError,
    StopRequestedError,
    StoreWriteError,
)
from statemgr.kafka.ports import Bounds, TopicSpec
from statemgr.layout import PROGRESS_KEY, changelog_key, store_directory, store_key
from statemgr.progress import InputProgress, Progress, encode_progress
from statemgr.store import MemoryBackend, RocksBackend
from statemgr.testing.kafka import FakeKafka
from statemgr.testing.partition_log import Outcome
from statemgr.types import TaskId, TopicPartition

TOPIC = "app.count.changelog"
TASK = TaskId("count", 0)
HOUR = 3_600_000


def progress(high, epoch=1):
    return Progress(epoch, {"bids": InputProgress(high, high)})


class World:
    """A changelog of two partitions, a writer, a backend, and the truth about each partition's state."""

    def __init__(self, backend):
        self.backend = backend
        self.kafka = FakeKafka()
        self.kafka.admin().create([TopicSpec(TOPIC, 2, {"cleanup.policy": "compact"})], 1, 1)
        self.writer = self.producer("writer")
        self.truth = ({}, {})
        self.high = [0, 0]
        self.top = [-1, -1]
        self.told = []
        self.paused = 0.0

    def producer(self, name):
        producer = self.kafka.producer(transactional_id=name, name=name)
        producer.init_transactions(1)
        return producer

    @property
    def topic(self):
        return self.kafka.admin().describe([TOPIC], 1)[TOPIC]

    def send(self, partition, changes, epoch=1):
        """One transaction's records: changes, then the progress record."""
        self.writer.begin()
        for key, value in changes:
            self.writer.produce(TOPIC, partition, changelog_key(1, key), value)
        self.high[partition] += 1
        self.writer.produce(TOPIC, partition, PROGRESS_KEY, encode_progress(progress(self.high[partition], epoch)))

    def commit(self, changes, partition=0, epoch=1):
        self.send(partition, changes, epoch)
        self.writer.commit(1)
        self.truth[partition].update(changes)
        self.top[partition] = self.last_committed(partition)

    def abort(self, changes, partition=0):
        self.send(partition, changes)
        self.writer.abort(1)
        self.high[partition] -= 1

    def pause(self, seconds):
        self.paused += seconds
        self.kafka.clock.advance(seconds)

    def restore(self, targets=None, **more):
        return restore(
            targets or {TASK: 1},
            self.backend,
            self.kafka,
            self.topic,
            name="reader",
            settings=more.pop("settings", RestoreSettings()),
            clock=self.kafka.clock,
            on_progress=self.told.append,
            pause=self.pause,
            **more,
        )

    def restored(self, epoch=1, **more):
        """Restore one task, check it against the truth, close it, and give the report."""
        report = self.restore({TASK: epoch}, **more)[TASK]
        self.check(report)
        report.store.close()
        return report

    def check(self, report):
        partition = report.task.partition
        expected = {store_key(changelog_key(1, k)): v for k, v in self.truth[partition].items() if v is not None}
        with report.store.scan() as pairs:
            assert dict(pairs) == expected
        high = self.high[partition]
        assert (report.progress.inputs["bids"].high if report.progress else 0) == high
        meta = report.store.meta()
        assert self.last_committed(partition) <= meta.offset <= self.top[partition]
        assert (meta.topic_id, meta.epoch, meta.progress) == (self.topic.topic_id, report.epoch, report.progress)

    def last_committed(self, partition):
        entries = (entry for entry in self.kafka.entries(TOPIC, partition) if not entry.control)
        committed = (entry.offset for entry in entries if entry.transaction.outcome is Outcome.COMMITTED)
        return max(committed, default=-1)

    def assert_nothing_open(self):
        for epoch in self.backend.existing(TASK):
            self.backend.open(TASK, epoch).close()


def _partition(number):
    return TopicPartition(TOPIC, number)


@pytest.fixture(params=["memory", "rocksdb", "rocksdb that is filled"])
def make_world(request, tmp_path, monkeypatch):
    if request.param == "rocksdb that is filled":
        monkeypatch.setattr(begin, "FILL_FROM_RECORDS", 1)
    made = []

    def make():
        number = len(made)
        backend = MemoryBackend() if request.param == "memory" else RocksBackend(tmp_path / str(number))
        made.append(backend)
        return World(backend)

    yield make
    for backend in made:
        backend.close()


@pytest.fixture
def world(make_world):
    return make_world()


# -- where the state comes from --------------------------------------------------------------------------------------


def test_a_task_without_store_and_changelog_is_fresh(world):
    report = world.restored()
    assert (report.source, report.records, report.progress) == (Source.FRESH, 0, None)
    assert world.restored().source is Source.TAIL


def test_without_a_store_everything_is_read(world):
    world.commit([(b"a", b"1"), (b"b", b"2")])
    world.commit([(b"a", None)])
    report = world.restored()
    assert (report.source, report.records) == (Source.FULL, 5)


def test_with_a_base_only_the_tail_is_read(world):
    world.commit([(b"a", b"1")])
    world.restored()
    world.commit([(b"a", b"2"), (b"b", b"2")])
    report = world.restored()
    assert (report.source, report.records) == (Source.TAIL, 3)
    assert world.restored().records == 0


def test_the_base_of_a_former_epoch_is_taken_over_and_then_dropped(world):
    world.commit([(b"a", b"1")])
    world.restored(epoch=3)
    world.commit([(b"b", b"2")])
    report = world.restored(epoch=5)
    assert (report.source, report.records) == (Source.TAIL, 2)
    assert world.backend.existing(TASK) == [5]


def test_a_store_of_a_later_epoch_is_left_alone(world):
    world.commit([(b"a", b"1")])
    world.restored(epoch=7)
    assert world.restored(epoch=5).source is Source.FULL
    assert world.backend.existing(TASK) == [5, 7]


def test_a_store_of_a_later_epoch_is_not_even_opened(world):
    world.commit([(b"a", b"1")])
    later = world.backend.open(TASK, 7)
    world.restored(epoch=5)
    later.close()


def test_a_topic_made_anew_voids_the_base(world):
    world.commit([(b"a", b"1")])
    world.restored()
    world.kafka.recreate(TOPIC)
    world.truth, world.high = ({}, {}), [0, 0]
    assert world.restored().source is Source.FULL


def test_a_base_too_old_for_tombstones_is_void(world):
    world.commit([(b"a", b"1")])
    world.restored()
    world.commit([(b"a", None)])
    world.kafka.compact(TOPIC, drop_tombstones=True)
    world.kafka.clock.advance(13 * HOUR / 1000)
    assert world.restored().source is Source.FULL


def test_a_log_that_lost_its_end_is_believed_only_after_a_while(world):
    world.commit([(b"a", b"1")])
    world.restored()
    world.commit([(b"a", b"2")])
    world.restored()
    world.kafka.truncate(TOPIC, 0, 3)
    world.truth[0][b"a"], world.high[0] = b"1", 1
    assert world.restored().source is Source.FULL
    assert world.paused >= 5


def test_offsets_of_a_tail_that_a_broker_lost_are_not_claimed_when_they_go_to_others(world):
    """What was never committed may be gone after a power failure, and its offsets be used again."""
    world.commit([(b"a", b"1")])
    end = world.kafka.cluster.log(_partition(0)).bounds.end
    world.abort([(b"a", b"9")] * 5)
    world.restored()
    world.kafka.truncate(TOPIC, 0, world.kafka.cluster.log(_partition(0)).bounds.end - end)
    world.commit([(b"a", b"2")])
    for _ in range(3):
        world.commit([(b"b", b"2")])
    report = world.restored()
    assert (report.source, report.records) == (Source.TAIL, 8)


def test_a_log_whose_end_comes_back_meanwhile_keeps_the_base(world, monkeypatch):
    """A new leader may report an end below the true one for a moment."""
    world.commit([(b"a", b"1")])
    world.restored()
    make = world.kafka.consumer

    def with_stale_end(**options):
        consumer = make(**options)
        true_bounds = consumer.bounds
        consumer.bounds = lambda *ask: true_bounds(*ask) if world.paused else Bounds(0, 1)
        return consumer

    monkeypatch.setattr(world.kafka, "consumer", with_stale_end)
    assert world.restored().source is Source.TAIL
    assert 0 < world.paused < 1


# -- ends ------------------------------------------------------------------------------------------------------------


def test_aborted_records_are_not_restored_and_do_not_hold_the_end(world):
    world.commit([(b"a", b"1")])
    world.abort([(b"a", b"9"), (b"z", b"9")])
    assert world.restored().records == 2
    world.abort([(b"a", b"9")])
    report = world.restored()
    assert (report.source, report.records) == (Source.TAIL, 0)


def test_an_open_transaction_of_another_producer_is_waited_for(world):
    world.commit([(b"a", b"1")])
    foreign = world.producer("foreign")
    foreign.begin()
    foreign.produce(TOPIC, 0, changelog_key(1, b"a"), b"9")
    foreign.flush(1)
    began = world.kafka.clock.monotonic_s()
    world.restored()
    assert world.kafka.clock.monotonic_s() - began >= 5


def test_markers_that_lag_are_waited_for(world):
    world.kafka.cluster.marker_lag_s = 0.7
    world.commit([(b"a", b"1")])
    world.restored()


@pytest.mark.parametrize("base", [False, True])
@pytest.mark.parametrize("history", [[], ["1"], ["1", "2"], ["1", None], [None], ["1", None, "3"]])
@pytest.mark.parametrize("compact", [False, True])
def test_shortest_changelogs(world, history, base, compact):
    for number, value in enumerate(history):
        world.commit([(b"k", None if value is None else value.encode())])
        if base and number == 0:
            world.restored()
    if compact:
        world.kafka.compact(TOPIC)
    world.restored()
    world.restored()


def test_a_log_of_nothing_but_markers_and_gaps_is_complete(world):
    world.abort([(b"a", b"1")])
    world.abort([(b"a", b"2")])
    report = world.restored()
    assert (report.records, report.progress) == (0, None)
    assert world.told[-1].remaining == 0


def test_progress_is_that_of_the_base_when_the_tail_has_none(world):
    world.commit([(b"a", b"1")])
    world.restored()
    world.writer.begin()
    world.writer.produce(TOPIC, 0, changelog_key(1, b"b"), b"2")
    world.writer.commit(1)
    world.truth[0][b"b"] = b"2"
    world.top[0] = world.last_committed(0)
    assert world.restored().progress == progress(1)


# -- several tasks ----------------------------------------------------------------------------------------------------


def test_tasks_are_restored_together_each_from_its_own_base(world):
    other = TaskId("count", 1)
    for number in range(20):
        world.commit([(b"k%d" % (number % 3), b"%d" % number)], partition=number % 2)
    world.restored()
    world.told.clear()
    world.commit([(b"late", b"1")])
    reports = world.restore({TASK: 1, other: 4}, settings=RestoreSettings(batch_records=3))
    assert {task: report.source for task, report in reports.items()} == {TASK: Source.TAIL, other: Source.FULL}
    for report in reports.values():
        world.check(report)
    remaining = [told.remaining for told in world.told]
    assert remaining == sorted(remaining, reverse=True)
    assert remaining[-1] == 0
    assert world.told[-1].records == 2 + 20
    assert world.told[-1].bytes > 0
    assert [world.told[-1].each[task].records for task in (TASK, other)] == [2, 20]


def test_no_tasks_need_no_restore(world):
    assert restore({}, world.backend, world.kafka, world.topic, name="r", clock=world.kafka.clock) == {}


# -- the log is cut while it is read ----------------------------------------------------------------------------------


def delete_at(world, nth, before):
    """Delete records before an offset at the nth read."""
    calls = []

    def hook(_client, call):
        calls.append(call)
        if calls.count("consume") == nth and call == "consume":
            world.kafka.delete_records(TOPIC, 0, before)

    world.kafka.on_call(hook)


def test_a_log_truncated_ahead_of_the_reader_starts_the_task_over(world, caplog):
    for number in range(10):
        world.commit([(b"k%d" % number, b"x")])
    delete_at(world, 2, 15)
    for number in range(5):
        del world.truth[0][b"k%d" % number]
    with caplog.at_level(logging.WARNING):
        report = world.restored(settings=RestoreSettings(batch_records=4))
    assert (report.source, report.restarts) == (Source.FULL, 1)
    assert "starting over (1 of 5)" in caplog.text
    assert "starts at offset 15: what was before cannot be restored" in caplog.text


def test_truncation_never_leaves_what_was_read_before_it(world):
    """The half that was read is dropped: the log no longer vouches for it."""
    world.commit([(b"old", b"1")])
    world.restored()
    for _ in range(10):
        world.commit([(b"new", b"1")])
    delete_at(world, 2, 21)
    del world.truth[0][b"old"]
    assert world.restored(settings=RestoreSettings(batch_records=2)).restarts == 1


def test_a_log_that_is_cut_again_and_again_ends_the_restore(world):
    for number in range(200):
        world.commit([(b"k%d" % number, b"x")])
    log = world.kafka.cluster.log(_partition(0))

    def hook(_client, call):
        if call == "consume":
            world.kafka.delete_records(TOPIC, 0, min(log.bounds.start + 30, log.bounds.end - 1))

    world.kafka.on_call(hook)
    with pytest.raises(RestoreStalledError, match=r"started over 5 times.*cleanup\.policy=compact"):
        world.restore(settings=RestoreSettings(batch_records=4))
    world.kafka.on_call(None)
    world.assert_nothing_open()


# -- waits and their ends ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [RetryableKafkaError("not yet"), KafkaUnavailableError("no leader")])
@pytest.mark.parametrize("times", [1, 59])
def test_unknown_bounds_are_asked_again(world, error, times):
    world.commit([(b"a", b"1")])
    world.restored()
    for _ in range(times):
        world.kafka.fail_next("bounds", error)
    assert world.restored().source is Source.TAIL


def test_bounds_that_stay_unknown_end_the_restore_and_leave_the_store(world):
    world.commit([(b"a", b"1")])
    world.restored()
    for _ in range(1_000):
        world.kafka.fail_next("bounds", RetryableKafkaError("no leader"))
    with pytest.raises(RestoreStalledError, match=r"changelog\[0\] could not begin for 60 s.*left as it is"):
        world.restore()
    store = world.backend.open(TASK, 1)
    assert store.meta().progress == progress(1)
    store.close()


def test_a_restore_without_progress_names_the_partition_offset_and_age(world):
    world.commit([(b"a", b"1")])
    foreign = world.producer("foreign")
    foreign.begin()
    foreign.produce(TOPIC, 0, changelog_key(1, b"a"), b"9")
    foreign.flush(1)
    calls = []
    world.kafka.on_call(lambda client, call: calls.append((client, call)))
    with pytest.raises(RestoreStalledError, match=r"no progress for 5 s: app\.count\.changelog\[0\] at offset 3 of 4"):
        world.restore(settings=RestoreSettings(stall_timeout_s=5))
    assert calls.count(("reader", "assign")) == 2  # half-way the reader was replaced, once
    world.assert_nothing_open()


def test_a_restore_slower_than_tombstones_stay_is_given_up(world):
    for _ in range(10):
        world.commit([(b"a", b"1")])
    world.kafka.on_call(lambda _client, call: world.kafka.clock.advance(5 * 3600) if call == "consume" else None)
    with pytest.raises(RestoreStalledError, match=r"took longer than 43200 s.*raise delete\.retention\.ms"):
        world.restore(settings=RestoreSettings(batch_records=1, stall_timeout_s=10**9))
    world.assert_nothing_open()


@pytest.mark.parametrize("after", range(12))
def test_a_stop_request_is_obeyed_at_any_time_and_keeps_what_was_applied(world, after):
    for number in range(10):
        world.commit([(b"k%d" % number, b"x" * 100)])
    asked = []

    def stop():
        asked.append(None)
        return len(asked) > after

    few = RestoreSettings(batch_records=2, chunk_bytes=1)
    world.kafka.cluster.log(_partition(0))
    try:
        world.restore(settings=few, stop=stop)[TASK].store.close()
    except StopRequestedError:
        assert len(asked) == after + 1
    world.assert_nothing_open()
    world.restored()


# -- what a changelog can't hold ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (b"k", b"x", "begins with a 2-byte table id"),
        (PROGRESS_KEY, b"{", "not a progress record"),
        (PROGRESS_KEY, None, "is a delete"),
    ],
)
def test_a_record_that_is_none_stops_the_restore_by_name(world, key, value, message):
    world.commit([(b"a", b"1")])
    world.writer.begin()
    world.writer.produce(TOPIC, 0, key, value)
    world.writer.commit(1)
    with pytest.raises(CodecError, match=rf"changelog\[0\].* offset 3.*{message}"):
        world.restore()
    world.assert_nothing_open()


# -- any history ------------------------------------------------------------------------------------------------------

CHANGES = st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c", b"d", b"e"]), st.none() | st.binary(max_size=2)))
STEPS = st.one_of(
    st.tuples(st.just("commit"), CHANGES),
    st.tuples(st.just("abort"), CHANGES),
    st.tuples(st.just("compact"), st.none()),
    st.tuples(st.just("restore"), st.integers(0, 2)),
    st.tuples(st.just("crash"), st.integers(0, 12)),
)


HISTORIES = {"steps": st.lists(STEPS, max_size=12), "batch": st.integers(1, 100)}


@given(**HISTORIES)
@settings(max_examples=100, deadline=None)
def test_any_history_of_sets_deletes_aborts_compactions_and_crashes_restores_the_dict(steps, batch):
    play(World(MemoryBackend()), steps, batch)


@pytest.mark.slow
@given(**HISTORIES)
@settings(max_examples=8, deadline=None)
def test_the_same_histories_on_rocksdb(tmp_path_factory, steps, batch):
    play(World(RocksBackend(tmp_path_factory.mktemp("state"))), steps, batch)


def play(world, steps, batch):
    epoch = 1
    limits = RestoreSettings(batch_records=batch, chunk_bytes=1)
    for name, argument in steps:
        if name == "commit":
            world.commit(argument)
        elif name == "abort":
            world.abort(argument)
        elif name == "compact":
            world.kafka.compact(TOPIC)
        elif name == "restore":
            epoch += argument
            world.restored(epoch, settings=limits)
        else:
            crash_after(world, epoch, argument, limits)
    world.restored(epoch, settings=limits)
    world.backend.close()


class CrashError(Exception):
    """The process under test ends here."""


def crash_after(world, epoch, calls, limits):
    """End a restore at its n-th call of Kafka."""
    made = []

    def hook(client, _call):
        made.append(client)
        if made.count("reader") == calls:
            raise CrashError

    world.kafka.on_call(hook)
    try:
        for report in world.restore({TASK: epoch}, settings=limits).values():
            report.store.close()
    except CrashError:
        pass
    world.kafka.on_call(None)


# -- faults in every step ---------------------------------------------------------------------------------------------


class FaultyBackend:
    """A backend whose n-th step fails; counts steps of itself and of its stores."""

    def __init__(self, backend, fail_at):
        self._backend = backend
        self._left = fail_at

    def __getattr__(self, name):
        return self._step(name, getattr(self._backend, name))

    def _step(self, name, act):
        def call(*arguments, **named):
            self._left -= name != "close"
            if self._left == 0 and name != "close":
                raise StoreWriteError(f"fault in {name}")
            result = act(*arguments, **named)
            if name == "filled":
                return [FaultyStore(store, self) for store in result]
            return FaultyStore(result, self) if name == "open" else result

        return call


class FaultyStore:
    def __init__(self, store, backend):
        self._store = store
        self._backend = backend

    def __getattr__(self, name):
        return self._backend._step(name, getattr(self._store, name))


@pytest.mark.slow
@pytest.mark.parametrize("former_epoch", [None, 1, 2])
def test_a_fault_in_any_step_leaves_no_store_open_and_the_next_restore_succeeds(make_world, former_epoch):
    step, failed = 1, True
    while failed:
        world = make_world()
        world.commit([(b"a", b"1")])
        if former_epoch:
            world.restored(former_epoch)
        world.commit([(b"a", b"2")])
        whole, world.backend = world.backend, FaultyBackend(world.backend, step)
        try:
            world.restore({TASK: 2})[TASK].store.close()
            failed = False
        except StoreWriteError:
            step += 1
        world.backend = whole
        world.assert_nothing_open()
        world.restored(2)
        assert world.backend.existing(TASK) == [2]
    assert step > 4


# -- damage (RocksDB) -------------------------------------------------------------------------------------------------


def test_a_damaged_store_is_rebuilt_with_one_warning_that_names_path_and_bytes(tmp_path, caplog):
    backend = RocksBackend(tmp_path)
    world = World(backend)
    world.commit([(b"a", b"1")])
    world.restored()
    directory = store_directory(tmp_path, TASK, 1)
    manifest = next(directory.glob("MANIFEST-*"))
    manifest.write_bytes(b"\xff" + manifest.read_bytes()[1:])
    with caplog.at_level(logging.WARNING):
        assert world.restored().source is Source.FULL
    (warning,) = [record.getMessage() for record in caplog.records]
    assert str(directory) in warning
    assert "bytes)" in warning
    backend.close()


def test_a_former_store_stays_where_somebody_else_knows_who_needs_it(world):
    world.commit([(b"a", b"1")])
    world.restored(1)
    world.restore({TASK: 2}, keep_former=True)[TASK].store.close()
    assert world.backend.existing(TASK) == [1, 2]
