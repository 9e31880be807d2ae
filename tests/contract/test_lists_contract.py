"""Lists in a task's state are Python lists, in memory and in RocksDB, whatever is appended, dropped or lost."""

from __future__ import annotations

from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from statemgr.layout import list_table, split_changelog_key, split_chunk_key
from statemgr.state import TableSpec, TaskState, head_codec, json_codec
from statemgr.store import MemoryBackend, RocksBackend, StoreMeta
from statemgr.types import TaskId

TASK = TaskId("count", 0)
WAITING = TableSpec("waiting", 1, head_codec(int, str), json_codec(list[int]))
COUNTS = TableSpec("counts", 2, json_codec(int))
KEYS = [b"", b"a", b"ab", b"a\x00\x00\x00\x00\x00"]

key = st.sampled_from(KEYS)
number = st.sampled_from([0, 1, 1, 2, 5, 7, 8, 9, 30, 64, 65, 200])
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), key, number),
        st.tuples(st.just("append"), key, number),
        st.tuples(st.just("replace"), key, number),
        st.tuples(st.just("retain"), key, st.integers(1, 12)),
        st.tuples(st.just("thin"), key, st.integers(1, 12)),
        st.tuples(st.just("note"), key, st.sampled_from(["x", "y", None])),
        st.tuples(st.just("delete"), key, st.none()),
        st.tuples(st.sampled_from(["commit", "commit", "abort", "reopen"]), st.none(), st.none()),
    ),
    max_size=40,
)


class Lists:
    """A task's state, and what it must be."""

    def __init__(self, backend, cache_entries):
        self._backend = backend
        self._cache_entries = cache_entries
        self._next = 0
        self._offset = 0
        self._committed = {}
        self.wanted = {}
        self.entries = {}
        self._open()

    def _open(self):
        self._state = TaskState(TASK, 1, self._backend.open(TASK, 1), [COUNTS, WAITING], self._cache_entries)
        self._lists = self._state.lists("waiting")

    def run(self, what, name, value):
        rows, note = self.wanted.get(name, ([], None))
        match what:
            case "append":
                new = self._new(value)
                self._lists.append_many([name], [new])
                self._set(name, [*rows, *new], note)
            case "replace":
                new = self._new(value)
                self._lists.replace_many([name], [new], ["z"])
                self._set(name, new, "z")
            case "retain":
                left = [row for row in rows if row % value == 0]
                told = {}
                self._lists.retain_many(
                    [name], lambda row: row % value == 0, lambda key, rows: told.update({key: rows})
                )
                assert told == {name: left}
                self._set(name, left, None)
            case "thin":
                self._lists.retain_many([name], lambda row: row % value == 0)
                self._set(name, [row for row in rows if row % value == 0], note)
            case "note":
                self._lists.note_many([name], [value])
                self._set(name, rows, value)
            case "delete":
                self._state.delete_many("waiting", [name])
                self._set(name, [], None)
            case "commit":
                self.commit()
            case "abort":
                self._state.discard()
                self.wanted = dict(self._committed)
            case "reopen":
                self._state.close()
                self.wanted = dict(self._committed)
                self._open()

    def _new(self, count):
        self._next += count
        return list(range(self._next - count, self._next))

    def _set(self, name, rows, note):
        self.wanted[name] = (rows, note)
        if not rows and note is None:
            del self.wanted[name]

    def commit(self):
        """Commit; what goes to the changelog makes the same entries as what goes to the store."""
        self.entries |= dict(self._state.changes())
        self._offset += 1
        self._state.apply(StoreMeta("T", self._offset, 0, 1, None))
        self._committed = dict(self.wanted)
        with self._state.store.scan() as pairs:
            stored = {name[1:]: value for name, value in pairs}
        assert stored == {name: value for name, value in self.entries.items() if value is not None}

    def check(self):
        """Rows, notes, and that no chunk is left of what is gone."""
        assert self._lists.get_many(KEYS) == [self.wanted.get(name, ([], None))[0] for name in KEYS]
        heads = self._lists.heads.get_many(KEYS)
        assert [head and head.note for head in heads] == [self.wanted.get(name, ([], None))[1] for name in KEYS]
        self.commit()
        for full, value in self.entries.items():
            table, name = split_changelog_key(full)
            if value is not None and list_table(table) is not None:
                owner, chunk = split_chunk_key(name)
                head = heads[KEYS.index(owner)]
                assert head is not None
                assert head.begin <= chunk < head.end

    def close(self):
        self._state.close()


@pytest.fixture(params=["memory", "rocksdb"], scope="module")
def fresh_backend(request, tmp_path_factory):
    """Makes empty backends."""

    def make():
        return MemoryBackend() if request.param == "memory" else RocksBackend(tmp_path_factory.mktemp("lists"))

    return make


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(OPERATIONS, st.sampled_from([4, 1000]))
def test_lists_are_lists_through_commits_aborts_and_restarts(fresh_backend, operations, cache_entries):
    with closing(fresh_backend()) as backend, closing(Lists(backend, cache_entries)) as lists:
        for operation in operations:
            lists.run(*operation)
        lists.check()


def test_what_was_deleted_leaves_nothing_behind(fresh_backend):
    with closing(fresh_backend()) as backend, closing(Lists(backend, 4)) as lists:
        for _ in range(30):
            lists.run("append", b"a", 5)
            lists.run("commit", None, None)
        lists.run("delete", b"a", None)
        lists.run("append", b"a", 3)
        lists.check()
        assert lists.wanted == {b"a": ([150, 151, 152], None)}
        assert len([value for value in lists.entries.values() if value is not None]) == 1
