"""What every store and backend does, in memory and in RocksDB."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from statemgr.errors import OpenScanError, StoreClosedError, StoreLockedError
from statemgr.layout import HOT_KEY, MIGRATION_KEY
from statemgr.progress import InputProgress, Progress
from statemgr.store import META_KEY, MemoryBackend, RocksBackend, StoreMeta
from statemgr.types import TaskId

TASK = TaskId("count", 0)
OTHER = TaskId("count", 1)
PROGRESS = Progress(3, {"bids": InputProgress(5, 9, {"k": (6, 1)})}, {"u/0": 17})


def meta(offset=0, epoch=1):
    return StoreMeta("T", offset, 1_000 + offset, epoch, PROGRESS)


@pytest.fixture(params=["memory", "rocksdb"])
def make_backend(request, tmp_path):
    """Makes backends; a later one on RocksDB sees the directories of the former."""
    made = []

    def make():
        backend = MemoryBackend() if request.param == "memory" else RocksBackend(tmp_path)
        made.append(backend)
        return backend

    yield make
    for backend in made:
        backend.close()


@pytest.fixture
def backend(make_backend):
    return make_backend()


def all_of(store, prefix=b""):
    with store.scan(prefix) as pairs:
        return list(pairs)


def test_a_new_store_is_empty_and_has_no_meta(backend):
    store = backend.open(TASK, 1)
    assert store.meta() is None
    assert store.get_many([b"aaa", b""]) == [None, None]
    assert store.get_many([]) == []
    assert all_of(store) == []


def test_what_was_filled_in_is_there_for_use(backend):
    at = [(TASK, 1), (OTHER, 1)]
    for number, (task, epoch) in enumerate(at):
        store = backend.open(task, epoch, filling=True)
        store.write([(b"aaa", b"1"), (b"bbb", b"2"), (b"ccc", b"3")], meta(4))
        store.write([(b"bbb", None), (b"ccc", b"%d" % number)], meta(5))
    for number, store in enumerate(backend.filled(at)):
        assert all_of(store) == [(b"aaa", b"1"), (b"ccc", b"%d" % number)]
        assert store.meta() == meta(5)
        store.write([(b"ddd", b"4")], meta(6))
        store.close()
    assert backend.filled([]) == []
    assert backend.open(TASK, 1).meta() == meta(6)


def test_a_filling_that_was_left_off_goes_on_from_its_meta(backend):
    store = backend.open(TASK, 1, filling=True)
    store.write([(b"aaa", b"1")], meta(4))
    store.close()
    store = backend.open(TASK, 1, filling=True)
    assert store.meta() == meta(4)
    store.write([(b"bbb", b"2")], meta(5))
    (store,) = backend.filled([(TASK, 1)])
    assert all_of(store) == [(b"aaa", b"1"), (b"bbb", b"2")]
    assert store.meta() == meta(5)


def test_entries_and_meta_survive_close_and_open(backend):
    store = backend.open(TASK, 1)
    store.write([(b"aaa", b"1"), (b"bbb", b"")], meta(4))
    store.close()
    store = backend.open(TASK, 1)
    assert store.get_many([b"bbb", b"aaa", b"ccc", b"aaa"]) == [b"", b"1", None, b"1"]
    assert store.meta() == meta(4)


def test_none_deletes_and_the_last_entry_of_a_batch_wins(backend):
    store = backend.open(TASK, 1)
    store.write([(b"aaa", b"1"), (b"aaa", None), (b"bbb", None), (b"bbb", b"2"), (b"ccc", b"3")], meta())
    assert all_of(store) == [(b"bbb", b"2"), (b"ccc", b"3")]
    store.write([(b"ccc", None), (b"never", None)], meta(1))
    assert all_of(store) == [(b"bbb", b"2")]


def test_a_scan_is_in_key_order_within_its_prefix_and_never_shows_the_meta_record(backend):
    store = backend.open(TASK, 1)
    keys = [b"\x00\x00\x01z", b"\x00\x00\x02a", b"\x01\x00\x01", b"\xff\xff\xff"]
    store.write([(key, key) for key in reversed(keys)], meta())
    assert [key for key, _ in all_of(store)] == keys
    assert [key for key, _ in all_of(store, b"\x00")] == keys[:2]
    assert [key for key, _ in all_of(store, META_KEY)] == keys[:2]
    assert [key for key, _ in all_of(store, b"\xff")] == keys[3:]
    assert all_of(store, b"\x02") == []


def test_a_scan_sees_the_store_as_it_was_on_entering(backend):
    store = backend.open(TASK, 1)
    store.write([(b"aaa", b"1")], meta())
    with store.scan() as pairs:
        store.write([(b"aaa", b"2"), (b"bbb", b"2")], meta(1))
        assert list(pairs) == [(b"aaa", b"1")]
    assert all_of(store) == [(b"aaa", b"2"), (b"bbb", b"2")]


def test_closing_under_a_live_scan_is_refused_and_works_afterwards(backend):
    store = backend.open(TASK, 1)
    store.write([(b"aaa", b"1"), (b"bbb", b"2")], meta())
    with store.scan() as pairs:
        next(pairs)
        with pytest.raises(OpenScanError, match=r"count/0@1.*1 live scan.*'with'"):
            store.close()
        assert list(pairs) == [(b"bbb", b"2")]
    store.close()
    backend.open(TASK, 1).close()


def test_a_scan_that_is_abandoned_by_an_exception_frees_the_store(backend):
    store = backend.open(TASK, 1)
    store.write([(b"aaa", b"1"), (b"bbb", b"2")], meta())
    with pytest.raises(KeyError), store.scan() as pairs:
        next(pairs)
        raise KeyError
    store.close()
    backend.open(TASK, 1).close()


def test_a_scan_that_is_never_entered_holds_nothing(backend):
    store = backend.open(TASK, 1)
    scan = store.scan()
    store.close()
    with pytest.raises(StoreClosedError), scan:
        pass
    backend.open(TASK, 1).close()


def test_use_after_close_is_a_named_error_and_closing_twice_is_not(backend):
    store = backend.open(TASK, 1)
    store.close()
    store.close()
    uses = (lambda: store.get_many([b"a"]), lambda: store.write([], meta()), lambda: store.put_raw([]), store.meta)
    for use in uses:
        with pytest.raises(StoreClosedError, match=r"count/0@1.* is closed; open it again"):
            use()


def test_a_batch_that_breaks_in_the_middle_changes_neither_entries_nor_meta(backend):
    store = backend.open(TASK, 1)
    store.write([(b"aaa", b"1")], meta(1))

    def breaking():
        yield b"aaa", b"2"
        yield b"bbb", b"2"
        raise KeyError

    with pytest.raises(KeyError):
        store.write(breaking(), meta(2))
    assert all_of(store) == [(b"aaa", b"1")]
    assert store.meta() == meta(1)


def test_a_raw_batch_changes_entries_and_leaves_the_meta_record(backend):
    store = backend.open(TASK, 1)
    store.put_raw([(b"aaa", b"1")])
    assert store.meta() is None
    store.write([(b"bbb", b"1")], meta(3))
    store.put_raw([(b"aaa", None), (b"bbb", b"2"), (b"ccc", b"3"), (b"ccc", None)])
    store.put_raw([])
    store.close()
    store = backend.open(TASK, 1)
    assert all_of(store) == [(b"bbb", b"2")]
    assert store.meta() == meta(3)


def test_a_raw_batch_that_breaks_in_the_middle_changes_nothing(backend):
    store = backend.open(TASK, 1)

    def breaking():
        yield b"aaa", b"1"
        raise KeyError

    with pytest.raises(KeyError):
        store.put_raw(breaking())
    assert all_of(store) == []


def test_own_records_are_read_by_key_and_never_scanned(backend):
    store = backend.open(TASK, 1)
    own = (MIGRATION_KEY, HOT_KEY)
    store.write([(key, b"own") for key in own], meta())
    store.put_raw([(key + b"\x00\x01k", b"entry") for key in own])
    assert store.get_many(own) == [b"own", b"own"]
    assert all_of(store) == [(key + b"\x00\x01k", b"entry") for key in own]
    assert all_of(store, MIGRATION_KEY) == [(MIGRATION_KEY + b"\x00\x01k", b"entry")]


def test_a_store_is_open_once_only(backend):
    backend.open(TASK, 1)
    with pytest.raises(StoreLockedError, match=r"count/0@1.*open in this process; close it first"):
        backend.open(TASK, 1)
    backend.open(TASK, 2)
    backend.open(OTHER, 1)


def test_an_open_store_is_neither_destroyed_nor_forked(backend):
    store = backend.open(TASK, 1)
    with pytest.raises(StoreLockedError):
        backend.destroy(TASK, 1)
    with pytest.raises(StoreLockedError):
        backend.fork(TASK, 1, 2)
    assert backend.existing(TASK) == [1]
    store.close()


def test_existing_lists_the_epochs_of_the_task_in_order(backend):
    assert backend.existing(TASK) == []
    for task, epoch in ((TASK, 10), (TASK, 9), (TaskId("count", 10), 3), (TaskId("other", 0), 4)):
        backend.open(task, epoch).close()
    assert backend.existing(TASK) == [9, 10]
    assert backend.existing(TaskId("count", 1)) == []


def test_destroy_deletes_and_an_absent_store_is_fine(backend):
    store = backend.open(TASK, 1)
    store.write([(b"aaa", b"1")], meta())
    store.close()
    backend.destroy(TASK, 1)
    backend.destroy(TASK, 1)
    assert backend.existing(TASK) == []
    store = backend.open(TASK, 1)
    assert store.meta() is None
    assert all_of(store) == []


def test_a_fork_has_the_content_and_goes_its_own_way(backend):
    store = backend.open(TASK, 1)
    store.write([(b"aaa", b"1"), (b"bbb", b"1")], meta(5))
    store.close()
    backend.open(TASK, 2).close()
    backend.fork(TASK, 1, 2)
    assert backend.existing(TASK) == [1, 2]
    fork = backend.open(TASK, 2)
    assert fork.meta() == meta(5)
    fork.write([(b"aaa", b"2")], meta(6, epoch=2))
    fork.close()
    assert all_of(backend.open(TASK, 1)) == [(b"aaa", b"1"), (b"bbb", b"1")]
    backend.close()
    backend.destroy(TASK, 1)
    assert all_of(backend.open(TASK, 2)) == [(b"aaa", b"2"), (b"bbb", b"1")]


def test_closing_the_backend_closes_every_store(backend):
    stores = [backend.open(TaskId("count", number), 1) for number in range(3)]
    backend.close()
    for store in stores:
        with pytest.raises(StoreClosedError):
            store.meta()
    backend.open(TASK, 1)


def test_its_size_grows_with_what_is_written_and_is_of_that_order(backend):
    store = backend.open(TASK, 1)
    empty = store.size()
    store.write([(b"k%05d" % number, b"x" * 100) for number in range(1000)], meta(0))
    size = store.size()
    assert 1000 <= size.entries <= 1010  # an estimate, that may count the store's own records
    assert 100_000 <= size.bytes - empty.bytes < 1_000_000
    store.close()
    with pytest.raises(StoreClosedError):
        store.size()


def test_a_description_names_the_store_and_its_size(backend):
    backend.open(TASK, 1).close()
    assert "0@1" in backend.describe(TASK, 1)
    assert "bytes" in backend.describe(TASK, 1) or "entries" in backend.describe(TASK, 1)


BATCHES = st.lists(
    st.lists(st.tuples(st.sampled_from([b"k%d%d" % (n, n) for n in range(5)]), st.none() | st.binary(max_size=3))),
    max_size=8,
)


@given(batches=BATCHES, reopen=st.sets(st.integers(0, 7)))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_sequence_of_batches_is_a_dict(make_backend, batches, reopen):
    backend = make_backend()
    for epoch in backend.existing(TASK):
        backend.destroy(TASK, epoch)
    store, model = backend.open(TASK, 1), {}
    for number, batch in enumerate(batches):
        store.write(batch, meta(number))
        model.update(batch)
        if number in reopen:
            store.close()
            store = backend.open(TASK, 1)
        assert dict(all_of(store)) == {key: value for key, value in model.items() if value is not None}
        assert store.get_many(sorted(model)) == [model[key] for key in sorted(model)]
        assert store.meta() == meta(number)
    store.close()
