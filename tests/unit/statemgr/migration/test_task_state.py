"""A task's tables while its state arrives: which keys to fetch, which are hot, and when it is over."""

from __future__ import annotations

import pytest

from statemgr.control.records import Layer
from statemgr.errors import MissingStateError
from statemgr.layout import HOT_KEY, changelog_key, store_key
from statemgr.migration.layered import begin
from statemgr.state import TableSpec, TaskState, json_codec
from statemgr.store import MemoryBackend
from statemgr.uses import COUNTED_KEYS, NOTED_BATCHES, SINGLES_BATCH, KeyUses
from tests.unit.statemgr.migration.world import TASK, meta

COUNTS = TableSpec("counts", 1, json_codec(int))
NAMES = TableSpec("names", 2, json_codec(str))


def stored(key, table=1):
    return store_key(changelog_key(table, key))


@pytest.fixture
def backend():
    return MemoryBackend()


@pytest.fixture
def store(backend):
    return begin(backend.open(TASK, 2), [Layer("a", 1)], meta(10, 2))


@pytest.fixture
def state(store):
    return TaskState(TASK, 2, store, [COUNTS, NAMES])


def test_unresolved_names_each_key_once_and_in_order(state, store):
    store.install([(stored(b"here"), b"1"), (stored(b"gone"), None)])
    assert state.unresolved("counts", [b"b", b"here", b"a", b"b", b"gone"]) == [b"b", b"a"]
    assert state.unresolved("names", [b"here"]) == [b"here"]
    with pytest.raises(LookupError, match="no table 'other'"):
        state.unresolved("other", [b"a"])


def test_what_was_put_without_reading_needs_no_fetch_until_it_is_discarded(state):
    counts = state.table("counts")
    counts.put(b"a", 1)
    counts.delete(b"b")
    assert state.unresolved("counts", [b"a", b"b", b"c"]) == [b"c"]
    state.discard()
    assert state.unresolved("counts", [b"a", b"b"]) == [b"a", b"b"]


def test_reading_too_early_is_an_error_and_leaves_no_absence_in_the_cache(state, store):
    counts = state.table("counts")
    with pytest.raises(MissingStateError):
        counts.get_many([b"a"])
    store.install([(stored(b"a"), b"7")])
    assert counts.get_many([b"a"]) == [7]


def test_a_put_before_the_old_value_arrives_wins_before_and_after_the_commit(state, store):
    counts = state.table("counts")
    counts.put(b"a", 2)
    counts.delete(b"b")
    store.install_bins(0, 255, [(stored(b"a"), b"1"), (stored(b"b"), b"1")])
    assert counts.get_many([b"a", b"b"]) == [2, None]
    state.changes()
    state.apply(meta(11, 2))
    store.complete_bins(0, 255)
    state.discard()
    assert counts.get_many([b"a", b"b"]) == [2, None]


def test_a_complete_task_works_on_its_own_store_alone(state, store):
    assert not state.finish_migration()
    store.install_bins(0, 255, [(stored(b"a"), b"1")])
    store.complete_bins(0, 255)
    assert state.unresolved("counts", [b"a", b"b"]) == []
    assert state.finish_migration()
    assert state.finish_migration()
    assert state.store is store.local
    assert state.table("counts").get_many([b"a", b"b"]) == [1, None]


def test_a_task_that_never_migrated_has_nothing_unresolved(backend):
    state = TaskState(TASK, 1, backend.open(TASK, 1), [COUNTS])
    assert state.unresolved("counts", [b"a"]) == []
    assert state.finish_migration()


def test_further_entries_go_in_the_same_batch(state, store):
    state.table("counts").put(b"a", 1)
    state.changes()
    state.apply(meta(11, 2), [(HOT_KEY, b"hot")])
    assert store.local.get_many([HOT_KEY, stored(b"a")]) == [b"hot", b"1"]
    state.apply(meta(12, 2), [(HOT_KEY, None)])
    assert store.local.get_many([HOT_KEY]) == [None]


def test_hot_keys_are_those_of_most_batches_over_all_tables(backend):
    state = TaskState(TASK, 1, backend.open(TASK, 1), [COUNTS, NAMES])
    for batch in ([b"a", b"b"], [b"a"], [b"a", b"c"]):
        state.table("counts").get_many(batch)
    for _ in range(2):
        state.table("names").get_many([b"b"])
    state.table("names").get(b"once")
    hot = state.hot_keys(10)
    assert hot[:2] == [stored(b"a"), stored(b"b", 2)]
    assert set(hot[2:]) == {stored(b"b"), stored(b"c"), stored(b"once", 2)}
    assert state.hot_keys(1) == hot[:1]


def test_only_the_last_batches_and_so_many_keys_are_remembered():
    uses = KeyUses(limit=1000)
    for number in range(NOTED_BATCHES + 1):
        uses.note([b"%d" % number])
    assert b"0" not in uses.counts()
    assert len(uses.counts()) == NOTED_BATCHES
    uses.note([b"x%d" % number for number in range(999)])
    assert len(uses.counts()) == 1000
    uses.note([b"y%d" % number for number in range(5000)])
    assert len(uses.counts()) == 5000


def test_of_large_batches_a_bounded_number_of_keys_is_counted_and_hot_ones_are_found_all_the_same():
    uses = KeyUses(limit=10_000_000)
    for batch in range(NOTED_BATCHES):
        uses.note([b"hot%d" % number for number in range(20)] + [b"%d-%d" % (batch, n) for n in range(2000)])
    counts = uses.counts()
    assert sum(counts.values()) <= COUNTED_KEYS
    assert {key for key, _ in counts.most_common(20)} == {b"hot%d" % number for number in range(20)}


def test_large_batches_take_nothing_from_small_ones():
    uses = KeyUses(limit=10_000_000)
    uses.note([b"x%d" % number for number in range(50_000)])
    for _ in range(3):
        uses.note([b"small%d" % number for number in range(2000)])
    counts = uses.counts()
    assert sum(counts.values()) == COUNTED_KEYS
    assert all(counts[b"small%d" % number] == 3 for number in range(2000))


def test_keys_used_one_by_one_count_too():
    uses = KeyUses(limit=1000)
    for _ in range(SINGLES_BATCH + 1):
        uses.note_one(b"a")
    assert uses.counts() == {b"a": SINGLES_BATCH + 1}
