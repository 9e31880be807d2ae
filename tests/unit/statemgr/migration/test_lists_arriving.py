"""Lists while their task's state arrives: whole or not at all, and what is newer wins (I4, R7, R8)."""

from __future__ import annotations

from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemgr.control.records import Layer
from statemgr.errors import MissingStateError
from statemgr.layout import changelog_key, chunk_keys, store_key
from statemgr.migration.layered import begin
from statemgr.state import TableSpec, TaskState, head_codec, json_codec
from statemgr.store import MemoryBackend
from tests.unit.statemgr.migration.world import TASK, meta

WAITING = TableSpec("waiting", 1, head_codec(int, str), json_codec(list[int]))
COUNTS = TableSpec("counts", 2, json_codec(int))
KEYS = [b"a", b"b", b"c"]


def head_of(key):
    return store_key(changelog_key(WAITING.id, key))


def chunk_of(key, number):
    return store_key(chunk_keys(changelog_key(WAITING.id, key), [number])[0])


def former(lists):
    """What a former owner has stored of lists (key → rows)."""
    state = TaskState(TASK, 1, MemoryBackend().open(TASK, 1), [WAITING, COUNTS])
    for key, rows in lists.items():
        for row in rows:
            state.lists("waiting").append_many([key], [[row]], [f"up to {row}"])
    state.changes()
    state.apply(meta(10, 1))
    with closing(state), state.store.scan() as pairs:
        return dict(pairs)


def arriving():
    store = begin(MemoryBackend().open(TASK, 2), [Layer("a", 1)], meta(10, 2))
    return TaskState(TASK, 2, store, [WAITING, COUNTS]), store


def commit(state):
    state.changes()
    state.apply(meta(11, 2))


@pytest.fixture
def entries():
    return former({b"a": range(20), b"b": range(3)})


def test_a_list_is_unresolved_until_all_of_its_chunks_are_here(entries):
    state, store = arriving()
    assert state.unresolved("waiting", [b"a", b"b", b"a"]) == [b"a", b"b"]
    assert state.rest_of([head_of(b"a"), head_of(b"b")]) == {}
    store.install([(head_of(key), entries[head_of(key)]) for key in (b"a", b"b")])
    assert state.unresolved("waiting", [b"b", b"a"]) == [b"a"]
    assert state.rest_of([head_of(b"a"), head_of(b"b")]) == {head_of(b"a"): [chunk_of(b"a", 0), chunk_of(b"a", 1)]}
    with pytest.raises(MissingStateError):
        state.lists("waiting").get_many([b"a"])
    store.install([(chunk_of(b"a", 1), entries[chunk_of(b"a", 1)])])
    assert state.rest_of([head_of(b"a")]) == {head_of(b"a"): [chunk_of(b"a", 0)]}
    store.install([(chunk_of(b"a", 0), entries[chunk_of(b"a", 0)])])
    assert state.unresolved("waiting", [b"a", b"b"]) == []
    assert state.lists("waiting").get_many([b"a", b"b"]) == [list(range(20)), [0, 1, 2]]


def test_keys_of_tables_without_lists_have_no_rest(entries):
    state, store = arriving()
    store.install([(store_key(changelog_key(COUNTS.id, b"a")), b"7")])
    assert state.rest_of([store_key(changelog_key(COUNTS.id, b"a"))]) == {}


def test_a_complete_bin_has_whole_lists(entries):
    state, store = arriving()
    bin_ = head_of(b"a")[0]
    store.install_bins(bin_, bin_, [(key, value) for key, value in entries.items() if key[0] == bin_])
    store.complete_bins(bin_, bin_)
    assert state.unresolved("waiting", [b"a"]) == []
    assert state.lists("waiting").get_many([b"a"]) == [list(range(20))]


def test_a_list_that_was_deleted_here_stays_so_whatever_arrives(entries):
    state, store = arriving()
    store.install(list(entries.items()))
    state.delete_many("waiting", [b"a"])
    commit(state)
    state.lists("waiting").append_many([b"a"], [[99]])
    commit(state)
    store.install_bins(0, 255, list(entries.items()))
    store.complete_bins(0, 255)
    state.discard()
    assert state.finish_migration()
    assert state.lists("waiting").get_many([b"a", b"b"]) == [[99], [0, 1, 2]]
    with state.store.scan() as pairs:
        assert set(dict(pairs)) == {head_of(b"a"), head_of(b"b")}


def test_hot_keys_name_the_chunks_of_lists_that_are_read():
    state = TaskState(TASK, 1, MemoryBackend().open(TASK, 1), [WAITING])
    lists = state.lists("waiting")
    lists.append_many([b"a"], [range(20)])
    for _ in range(3):
        lists.get_many([b"a"])
    assert set(state.hot_keys(10)) == {head_of(b"a"), chunk_of(b"a", 0)}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.integers(0, 17)),
        st.tuples(st.just("bin"), st.sampled_from(KEYS)),
        st.tuples(st.just("append"), st.tuples(st.sampled_from(KEYS), st.integers(1, 20))),
        st.tuples(st.just("retain"), st.tuples(st.sampled_from(KEYS), st.integers(2, 5))),
        st.tuples(st.just("delete"), st.sampled_from(KEYS)),
        st.tuples(st.just("commit"), st.none()),
    ),
    max_size=60,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), st.integers(1, 40)), STEPS)
def test_lists_are_the_same_in_whatever_order_their_entries_arrive(sizes, steps):
    """An owner works on the lists that are whole, while entries come late, twice and in any order."""
    wanted = {key: list(range(size)) for key, size in sizes.items()}
    entries = former(wanted)
    order = sorted(entries, key=hash)
    state, store = arriving()
    lists = state.lists("waiting")
    for what, value in steps:
        if what == "arrive":
            store.install([(name, entries[name]) for name in order[value : value + 1]])
        elif what == "bin":
            bin_ = head_of(value)[0]
            store.install_bins(bin_, bin_, [(name, data) for name, data in entries.items() if name[0] == bin_])
            store.complete_bins(bin_, bin_)
        elif what == "commit":
            commit(state)
        else:
            key = value[0] if isinstance(value, tuple) else value
            if state.unresolved("waiting", [key]):
                continue
            rows = wanted.get(key, [])
            if what == "append":
                lists.append_many([key], [range(100, 100 + value[1])])
                wanted[key] = [*rows, *range(100, 100 + value[1])]
            elif what == "retain":
                lists.retain_many([key], lambda row, by=value[1]: row % by != 0)
                wanted[key] = [row for row in rows if row % value[1] != 0]
            else:
                state.delete_many("waiting", [key])
                wanted[key] = []
    commit(state)
    store.install_bins(0, 255, [(name, entries[name]) for name in order])
    store.complete_bins(0, 255)
    state.discard()
    assert state.finish_migration()
    assert state.lists("waiting").get_many(KEYS) == [wanted.get(key, []) for key in KEYS]
