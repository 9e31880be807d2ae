"""Tables, cache and commit of a task's state (R11)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemgr.codecs import bytes_codec, json_codec
from statemgr.errors import CodecError, StoreWriteError
from statemgr.layout import MAX_TABLES, bin_of, changelog_key, store_key
from statemgr.state import (
    MIN_CACHE_ENTRIES,
    REPLICA_CACHE_ENTRIES,
    TableSpec,
    TaskState,
    cache_entries_for,
)
from statemgr.store import MemoryBackend, RocksBackend, StoreMeta
from statemgr.types import TaskId

TASK = TaskId("count", 2)
COUNTS = TableSpec("counts", 1, json_codec(int))
NAMES = TableSpec("names", 2, json_codec(str))


def meta(offset=0):
    return StoreMeta("T", offset, 0, 1, None)


def state_on(backend, cache_entries=100, tables=(COUNTS, NAMES)):
    return TaskState(TASK, 1, backend.open(TASK, 1), tables, cache_entries)


def content(table):
    with table.items() as entries:
        return dict(entries)


def test_what_is_put_is_read_before_and_after_the_commit():
    backend = MemoryBackend()
    state = state_on(backend)
    table = state.table("counts")
    table.put_many([b"a", b"b"], [1, 2])
    assert table.get_many([b"b", b"a", b"c"]) == [2, 1, None]
    state.changes()
    state.apply(meta())
    assert table.get_many([b"b", b"a", b"c"]) == [2, 1, None]
    state.close()
    assert state_on(backend).table("counts").get_many([b"b", b"a", b"c"]) == [2, 1, None]


def test_changes_are_changelog_entries_one_per_key_with_the_last_value():
    state = state_on(MemoryBackend())
    state.table("counts").put_many([b"a", b"b", b"a"], [1, 2, 3])
    state.table("counts").delete(b"b")
    state.table("names").put(b"a", "x")
    assert dict(state.changes()) == {b"\x00\x01a": b"3", b"\x00\x01b": None, b"\x00\x02a": b'"x"'}
    assert len(state.changes()) == 3


def test_two_tables_keep_equal_keys_apart():
    state = state_on(MemoryBackend())
    state.table("counts").put(b"k", 1)
    state.table("names").put(b"k", "one")
    state.changes()
    state.apply(meta())
    assert content(state.table("counts")) == {b"k": 1}
    assert content(state.table("names")) == {b"k": "one"}


def test_nothing_dirty_reaches_the_store_before_apply():
    state = state_on(MemoryBackend(), cache_entries=2)
    table = state.table("counts")
    for number in range(50):
        table.put(b"%d" % number, number)
        table.get_many([b"other-%d" % number])
    assert state.store.meta() is None
    assert table.get_many([b"%d" % number for number in range(50)]) == list(range(50))
    assert len(state.changes()) == 50
    assert state.store.meta() is None


def test_discard_drops_caches_wholly():
    state = state_on(MemoryBackend())
    table = state.table("counts")
    table.put(b"a", 1)
    state.changes()
    state.apply(meta())
    table.put(b"a", 2)
    state.changes()
    table.put(b"b", 3)
    state.discard()
    assert state.dirty_entries == 0
    assert state.changes() == []
    assert table.get_many([b"a", b"b"]) == [1, None]


def test_apply_writes_what_changes_returned_and_keeps_later_puts_dirty():
    backend = MemoryBackend()
    state = state_on(backend)
    table = state.table("counts")
    table.put_many([b"a", b"b"], [1, 1])
    state.changes()
    table.put_many([b"a", b"c"], [2, 2])
    state.apply(meta())
    assert state.store.get_many([store_key(changelog_key(1, key)) for key in (b"a", b"b", b"c")]) == [b"1", b"1", None]
    assert table.get_many([b"a", b"b", b"c"]) == [2, 1, 2]
    assert sorted(state.changes()) == [(b"\x00\x01a", b"2"), (b"\x00\x01c", b"2")]


def test_changes_asked_twice_include_the_first_answer():
    state = state_on(MemoryBackend())
    table = state.table("counts")
    table.put(b"a", 1)
    state.changes()
    table.put(b"b", 2)
    assert [key for key, _ in state.changes()] == [b"\x00\x01a", b"\x00\x01b"]
    state.apply(meta())
    assert state.dirty_entries == 0
    assert state.changes() == []


def test_apply_without_changes_writes_the_meta_record_alone():
    state = state_on(MemoryBackend())
    state.changes()
    state.apply(meta(7))
    assert state.store.meta() == meta(7)


def test_a_key_deleted_and_set_again_in_one_transaction_keeps_the_last_word():
    state = state_on(MemoryBackend())
    table = state.table("counts")
    table.put(b"k", 1)
    table.put(b"k", None)
    table.put(b"k", 2)
    assert state.changes() == [(b"\x00\x01k", b"2")]
    state.apply(meta())
    assert content(table) == {b"k": 2}


def test_items_show_uncommitted_over_stored_and_respect_deletes():
    state = state_on(MemoryBackend())
    table = state.table("counts")
    table.put_many([b"a", b"b", b"c"], [1, 2, 3])
    state.changes()
    state.apply(meta())
    table.put(b"a", 10)
    table.delete(b"b")
    state.changes()
    table.put(b"d", 4)
    assert content(table) == {b"a": 10, b"c": 3, b"d": 4}


class CountingStore:
    """A store that counts the keys asked of it."""

    def __init__(self, store):
        self._store = store
        self.asked = []

    def get_many(self, keys):
        self.asked.append(len(keys))
        return self._store.get_many(keys)

    def __getattr__(self, name):
        return getattr(self._store, name)


def counting_state(cache_entries):
    store = CountingStore(MemoryBackend().open(TASK, 1))
    return TaskState(TASK, 1, store, [COUNTS], cache_entries), store


def test_misses_of_a_batch_are_one_read_and_absence_is_cached():
    state, store = counting_state(100)
    table = state.table("counts")
    table.get_many([b"a", b"b", b"c"])
    table.get_many([b"a", b"b", b"c", b"d"])
    assert store.asked == [3, 1]


def test_what_was_asked_for_and_what_the_store_was_asked_for_is_counted_by_table():
    state = state_on(MemoryBackend())
    counts, names = state.table("counts"), state.table("names")
    counts.get_many([b"a", b"b"])
    counts.get_many([b"a", b"b", b"c"])
    names.get(b"a")
    names.get(b"a")
    counts.put(b"d", 1)
    counts.get(b"d")
    assert state.reads() == {"counts": (6, 3), "names": (2, 1)}
    assert state.cached_entries == 5


def test_the_cache_stays_within_its_limit():
    state, _ = counting_state(100)
    table = state.table("counts")
    for number in range(2_000):
        table.get_many([b"%d" % number])
        assert table.cached_entries <= 100


def test_what_is_used_again_and_again_stays_in_the_cache():
    state, store = counting_state(100)
    table = state.table("counts")
    for number in range(2_000):
        table.get_many([b"hot"])
        table.get_many([b"%d" % number])
    assert sum(store.asked) == 2_001


def test_what_was_sent_but_not_applied_outlives_any_number_of_generations():
    state, store = counting_state(10)
    table = state.table("counts")
    table.put(b"k", 1)
    state.changes()
    for number in range(100):
        table.get_many([b"%d" % number])
    store.asked.clear()
    assert table.get(b"k") == 1
    assert store.asked == []


def test_a_second_apply_writes_nothing_twice():
    state = state_on(MemoryBackend())
    state.table("counts").put(b"k", 1)
    state.changes()
    state.apply(meta(1))
    state.store.write([(store_key(changelog_key(1, b"k")), b"2")], meta(2))
    state.apply(meta(3))
    assert state.store.get_many([store_key(changelog_key(1, b"k"))]) == [b"2"]


def test_a_batch_larger_than_the_cache_is_answered():
    state, _ = counting_state(10)
    table = state.table("counts")
    table.put_many([b"%d" % n for n in range(500)], list(range(500)))
    state.changes()
    state.apply(meta())
    assert table.get_many([b"%d" % n for n in range(500)]) == list(range(500))
    assert table.cached_entries <= 1_000


OPERATIONS = st.one_of(
    st.tuples(st.just("put"), st.lists(st.tuples(st.integers(0, 4), st.none() | st.integers(0, 9)), max_size=6)),
    st.tuples(st.just("get"), st.lists(st.integers(0, 4), max_size=6)),
    st.tuples(st.just("send"), st.none()),
    st.tuples(st.just("commit"), st.none()),
    st.tuples(st.just("abort"), st.none()),
    st.tuples(st.just("reopen"), st.none()),
)


class Model:
    """A task's state as two dicts: what is committed, and what is seen."""

    def __init__(self, backend, cache_entries):
        self.backend = backend
        self.cache_entries = cache_entries
        self.state = state_on(backend, cache_entries, [COUNTS])
        self.committed = {}
        self.seen = {}
        self.offset = 0

    def put(self, pairs):
        self.state.table("counts").put_many([b"%d" % key for key, _ in pairs], [value for _, value in pairs])
        self.seen.update(pairs)

    def get(self, keys):
        assert self.state.table("counts").get_many([b"%d" % key for key in keys]) == [self.seen.get(k) for k in keys]

    def send(self, _):
        self.state.changes()

    def commit(self, _):
        changed = dict(self.state.changes())
        for key, value in changed.items():
            assert value == (None if self.seen[int(key[2:])] is None else b"%d" % self.seen[int(key[2:])])
        self.offset += 1
        self.state.apply(meta(self.offset))
        self.committed = dict(self.seen)

    def abort(self, _):
        self.state.discard()
        self.seen = dict(self.committed)

    def reopen(self, _):
        self.state.close()
        self.state = state_on(self.backend, self.cache_entries, [COUNTS])
        self.seen = dict(self.committed)

    def check(self):
        assert content(self.state.table("counts")) == {
            b"%d" % key: value for key, value in self.seen.items() if value is not None
        }


@given(st.lists(OPERATIONS, max_size=25), st.integers(1, 8))
@settings(max_examples=150, deadline=None)
def test_any_sequence_of_sets_deletes_commits_and_aborts_is_a_dict(operations, cache_entries):
    model = Model(MemoryBackend(), cache_entries)
    for name, argument in operations:
        getattr(model, name)(argument)
        model.check()


@given(operations=st.lists(OPERATIONS, max_size=15))
@settings(max_examples=15, deadline=None)
def test_the_same_holds_on_rocksdb(tmp_path_factory, operations):
    backend = RocksBackend(Path(tmp_path_factory.mktemp("state")))
    model = Model(backend, 4)
    for name, argument in operations:
        getattr(model, name)(argument)
    model.check()
    backend.close()


class FullDisk(CountingStore):
    """A store that can't be written."""

    def write(self, entries, meta):
        raise StoreWriteError("disk full")


def test_a_failed_store_write_names_the_task_and_keeps_the_changes():
    state = TaskState(TASK, 1, FullDisk(MemoryBackend().open(TASK, 1)), [COUNTS])
    state.table("counts").put(b"k", 1)
    state.changes()
    with pytest.raises(StoreWriteError, match=r"task count/2 stops: disk full"):
        state.apply(meta())
    assert state.changes() == [(b"\x00\x01k", b"1")]


def test_a_stored_value_of_another_type_names_table_and_key():
    backend = MemoryBackend()
    store = backend.open(TASK, 1)
    store.write([(store_key(changelog_key(1, b"good")), b"1"), (store_key(changelog_key(1, b"bad")), b"{}")], meta())
    state = TaskState(TASK, 1, store, [COUNTS])
    with pytest.raises(CodecError, match=r"table 'counts' \(id 1\), key b'bad'.*new table id"):
        state.table("counts").get_many([b"good", b"bad"])
    assert state.table("counts").get(b"good") == 1


def test_keys_and_values_must_be_as_many():
    table = state_on(MemoryBackend()).table("counts")
    with pytest.raises(ValueError, match="2 keys but 1 values for table 'counts'"):
        table.put_many([b"a", b"b"], [1])
    assert table.get_many([b"a", b"b"]) == [None, None]


def test_an_unknown_table_lists_those_there_are():
    with pytest.raises(LookupError, match=r"no table 'sums'; its tables: counts, names"):
        state_on(MemoryBackend()).table("sums")


@pytest.mark.parametrize(
    ("tables", "what"),
    [
        ([COUNTS, TableSpec("other", 1, bytes_codec())], "same id: 1"),
        ([COUNTS, TableSpec("counts", 9, bytes_codec())], "same name: counts"),
    ],
)
def test_two_tables_with_one_name_or_id_are_refused(tables, what):
    with pytest.raises(ValueError, match=what):
        state_on(MemoryBackend(), tables=tables)


@pytest.mark.parametrize("number", [-1, MAX_TABLES])
def test_table_ids_of_the_library_are_refused(number):
    with pytest.raises(ValueError, match=f"has id {number}"):
        TableSpec("t", number, bytes_codec())


def test_values_land_under_the_key_that_the_layout_says():
    state = state_on(MemoryBackend())
    state.table("counts").put(b"k", 5)
    state.changes()
    state.apply(meta())
    key = changelog_key(1, b"k")
    with state.store.scan(bytes((bin_of(key),))) as pairs:
        assert list(pairs) == [(bytes((bin_of(key),)) + key, b"5")]


def test_the_caches_of_all_tasks_together_stay_within_the_replicas_limit():
    assert cache_entries_for(8) * 8 <= REPLICA_CACHE_ENTRIES
    assert cache_entries_for(64) * 64 <= REPLICA_CACHE_ENTRIES
    assert cache_entries_for(0) == REPLICA_CACHE_ENTRIES
    assert cache_entries_for(10**9) == MIN_CACHE_ENTRIES


def test_a_key_is_committed_when_nothing_of_it_waits_for_its_transaction():
    state = state_on(MemoryBackend())
    table = state.table("counts")
    assert table.committed(b"a")
    table.put(b"a", 1)
    assert not table.committed(b"a")
    state.changes()
    assert not table.committed(b"a")
    state.apply(meta())
    assert table.committed(b"a")
    table.put(b"a", None)
    assert not table.committed(b"a")
    assert table.committed(b"b")
