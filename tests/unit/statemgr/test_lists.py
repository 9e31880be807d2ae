"""What lists cost, and where they lie: an append writes what is new, in the bin of its list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemgr.errors import CodecError
from statemgr.layout import (
    MAX_TABLES,
    bin_of,
    changelog_key,
    chunk_keys,
    list_table,
    split_changelog_key,
    split_chunk_key,
    store_key,
)
from statemgr.lists import CHUNK_ROWS, MOST_ROWS, ListHead
from statemgr.state import TableSpec, TaskState, head_codec, json_codec
from statemgr.store import MemoryBackend, StoreMeta
from statemgr.types import TaskId

TASK = TaskId("count", 0)
ROW = [7, "a row of some length", 1_700_000_000_000]
WAITING = TableSpec("waiting", 3, head_codec(list, int), json_codec(list[list]))
COUNTS = TableSpec("counts", 1, json_codec(int))


class Log:
    """A task's state, and what its commits write."""

    def __init__(self) -> None:
        self.state = TaskState(TASK, 1, MemoryBackend().open(TASK, 1), [WAITING, COUNTS])
        self.lists = self.state.lists("waiting")
        self.records = 0
        self.bytes = 0
        self.written: list[bytes] = []

    def commit(self) -> None:
        changes = self.state.changes()
        self.state.apply(StoreMeta("T", 0, 0, 1, None))
        self.records += len(changes)
        self.bytes += sum(len(key) + len(value or b"") for key, value in changes)
        self.written += [key for key, value in changes if value is not None]

    def append(self, times: int, rows: int = 1) -> Log:
        for number in range(times):
            self.lists.append_many([b"k"], [[ROW] * rows], [number])
            self.commit()
        return self

    def stored(self) -> dict[bytes, bytes]:
        with self.state.store.scan() as pairs:
            return dict(pairs)


@given(st.integers(0, MAX_TABLES - 1), st.binary(max_size=20), st.lists(st.integers(0, 2**32 - 1), max_size=5))
def test_a_chunk_is_in_the_bin_of_its_list_and_tells_whose_it_is(table, key, numbers):
    mine = changelog_key(table, key)
    chunks = chunk_keys(mine, numbers)
    assert [bin_of(chunk) for chunk in chunks] == [bin_of(mine)] * len(numbers)
    assert len(set(chunks)) == len(set(numbers))
    for chunk, number in zip(chunks, numbers, strict=True):
        table_of_chunk, name = split_changelog_key(chunk)
        assert list_table(table_of_chunk) == table
        assert split_chunk_key(name) == (key, number)


@pytest.mark.parametrize("table", [0, MAX_TABLES - 1, MAX_TABLES, 0xFFFE, 0xFFFF])
def test_tables_of_values_are_no_tables_of_chunks(table):
    assert list_table(table) is None


def test_an_appended_row_costs_the_same_however_long_the_list_is():
    """With the whole list in one entry, 2,000 rows would be two million in the changelog, and 1,000 a quarter of it."""
    short, long = Log().append(1000), Log().append(2000)
    row = len(json_codec(list[list]).encode([ROW]))
    assert long.bytes < 2.02 * short.bytes
    assert long.bytes < 2000 * 8 * row
    assert long.records == 2000 + 2000 // CHUNK_ROWS
    assert len(set(long.written)) == 1 + 2000 // CHUNK_ROWS
    chunks = [key for key in long.written if list_table(split_changelog_key(key)[0]) is not None]
    assert len(chunks) == len(set(chunks))


def test_many_rows_at_once_are_written_once_in_few_entries():
    log = Log().append(10, rows=1000)
    assert log.records == 10 * (1 + -(-1000 // MOST_ROWS))
    assert log.bytes < 1.2 * 10_000 * len(json_codec(list).encode(ROW))


def test_a_short_list_is_one_entry():
    log = Log().append(CHUNK_ROWS - 1)
    assert list(log.stored()) == [store_key(changelog_key(WAITING.id, b"k"))]
    assert log.state.table("waiting").get_many([b"k"]) == [ListHead(0, 0, [ROW] * 7, CHUNK_ROWS - 2)]


def test_rows_that_come_and_go_cost_the_same_however_many_are_kept():
    written = {}
    for kept in (200, 2000):
        log = Log()
        log.lists.append_many([b"k"], [[[number] for number in range(kept)]])
        log.commit()
        before = log.records
        for number in range(kept, kept + 300):
            log.lists.append_many([b"k"], [[[number]]])
            first = number - kept
            log.lists.retain_many([b"k"], lambda row, first=first: row[0] > first)
            log.commit()
        assert log.lists.get_many([b"k"]) == [[[number] for number in range(300, kept + 300)]]
        written[kept] = log.records - before
    assert written[2000] <= 1.1 * written[200]
    assert written[2000] < 3 * 300


def test_holes_do_not_pile_up_behind_a_row_that_stays():
    log = Log()
    log.lists.append_many([b"k"], [[[-1]]])
    for number in range(5000):
        log.lists.append_many([b"k"], [[[number]]])
        log.lists.retain_many([b"k"], lambda row, number=number: row[0] < 0 or row[0] > number - 20)
        log.commit()
        (head,) = log.lists.heads.get_many([b"k"])
        assert head.end - head.begin <= 12
    assert log.lists.get_many([b"k"]) == [[[-1], *([number] for number in range(4980, 5000))]]
    assert log.records < 3 * 5000


def test_an_append_reads_no_chunk():
    log = Log().append(100)
    log.state.discard()
    log.append(1)
    assert log.lists.chunks.cached_entries <= 1


def test_chunks_count_among_what_was_asked_for_and_is_in_memory():
    log = Log().append(20)
    log.state.discard()
    before = log.state.reads()["waiting"]
    log.lists.get_many([b"k"])
    asked, read = log.state.reads()["waiting"]
    assert (asked - before[0], read - before[1]) == (3, 3)
    assert log.state.cached_entries == 3


def test_replaced_and_deleted_lists_leave_tombstones_for_all_of_their_entries():
    log = Log().append(40)
    before = set(log.stored())
    log.lists.replace_many([b"k"], [[ROW]], [5])
    log.commit()
    assert log.lists.get_many([b"k"]) == [[ROW]]
    log.state.delete_many("waiting", [b"k"])
    gone = {store_key(key) for key, value in log.state.changes() if value is None}
    assert store_key(changelog_key(WAITING.id, b"k")) in gone
    log.state.apply(StoreMeta("T", 0, 0, 1, None))
    assert len(before) == 6
    assert log.stored() == {}


def test_values_of_other_tables_are_deleted_by_the_same_call():
    log = Log()
    log.state.table("counts").put_many([b"a", b"b"], [1, 2])
    log.state.delete_many("counts", [b"a"])
    assert log.state.table("counts").get_many([b"a", b"b"]) == [None, 2]


def test_a_table_without_lists_says_so():
    log = Log()
    with pytest.raises(LookupError, match=r"table 'counts' of task count/0 has no lists: make its spec with chunks"):
        log.state.lists("counts")
    with pytest.raises(LookupError, match="no table 'other'; its tables: counts, waiting"):
        log.state.lists("other")
    with pytest.raises(TypeError, match="table 'counts' has no lists"):
        _ = COUNTS.of_chunks


def test_what_an_older_program_kept_as_one_value_is_told_apart():
    """Lists of rows were values once."""
    log = Log()
    log.state.store.put_raw([(store_key(changelog_key(WAITING.id, b"k")), b"[[1,2],[3,4]]")])
    with pytest.raises(CodecError, match="was the table's value type changed without a new table id"):
        log.lists.get_many([b"k"])
