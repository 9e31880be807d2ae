"""Timers of entries of state."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from statemgr.control.records import Layer
from statemgr.migration.layered import begin
from statemgr.state import TableSpec, TaskState, json_codec
from statemgr.store import MemoryBackend, StoreMeta
from statemgr.types import TaskId
from statemgr.watermarks import NEVER
from tests.unit.towpath.operators.recording import RecordingContext, lists_spec
from towpath.operators.timers import Timers

TABLES = [TableSpec("t", 0, json_codec(int))]


def timers(entries=()):
    state = RecordingContext(TABLES).tasks[0]
    for key, time in entries:
        state.table("t").put(key, time)
    return Timers(state, "t", lambda _, time: time), state


def test_they_are_read_from_state():
    found, _ = timers([(b"a", 5), (b"b", 3), (b"c", 5)])
    assert found.earliest == 3
    assert found.take(4, 10) == [b"b"]
    assert sorted(found.take(5, 10)) == [b"a", b"c"]
    assert found.earliest is None


def test_the_earlier_of_two_timers_holds():
    found, _ = timers()
    found.add(b"a", 5)
    found.add(b"a", 7)
    assert found.earliest == 5
    found.add(b"a", 2)
    assert found.take(10, 10) == [b"a"]
    assert found.take(10, 10) == []


def test_those_of_another_state_are_not_these():
    found, state = timers()
    assert found.are_of(state)
    assert not found.are_of(timers()[1])


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(-5, 5))), st.integers(-5, 5), st.integers(0, 8))
def test_what_is_taken_is_due_and_nothing_earlier_stays(sets, until, most):
    found, _ = timers()
    expected: dict[bytes, int] = {}
    for number, time in sets:
        key = bytes([number])
        found.add(key, time)
        expected[key] = min(time, expected.get(key, time))
    taken = found.take(until, most)
    assert len(taken) == min(most, sum(time <= until for time in expected.values()))
    assert [expected[key] for key in taken] == sorted(expected[key] for key in taken)
    left = {key: time for key, time in expected.items() if key not in taken}
    assert found.earliest == min(left.values(), default=None)
    assert all(expected[key] <= until for key in taken)


def incomplete(entries):
    """A state with all of its bins elsewhere, and a store that has the entries."""
    layer = Layer("a", 0)
    local, other = (MemoryBackend().open(TaskId("stage", 0), epoch) for epoch in (1, 0))
    store = begin(local, [layer], StoreMeta("id", 0, 0, 1, None))
    theirs = TaskState(TaskId("stage", 0), 0, other, TABLES)
    keys = [key for key, _ in entries]
    theirs.table("t").put_many(keys, [time for _, time in entries])
    stored = dict(zip(theirs.table("t").store_keys(keys), (str(time).encode() for _, time in entries), strict=True))
    return TaskState(TaskId("stage", 0), 1, store, TABLES), store, stored


def test_those_of_bins_that_come_are_read_then():
    entries = [(b"a", 5), (b"b", 3), (b"c", 9)]
    state, store, stored = incomplete(entries)
    found = Timers(state, "t", lambda _, time: time)
    assert found.earliest is None
    for (_, time), key in sorted(zip(entries, stored, strict=True), reverse=True):
        store.install_bins(key[0], key[0], [(key, stored[key])])
        found.catch_up()
        store.complete_bins(key[0], key[0])
        assert found.earliest != time
        found.catch_up()
        here = [each for (_, each), other in zip(entries, stored, strict=True) if store.has_bin(other[0])]
        assert found.earliest == min(here)


def test_the_earliest_of_each_bin_is_told():
    found, state = timers([(bytes([number]), 1_000 - number) for number in range(200)])
    told = found.by_bin(10_000)
    stored = state.table("t").store_keys([bytes([number]) for number in range(200)])
    expected: dict[int, int] = {}
    for number, key in enumerate(stored):
        expected[key[0]] = min(1_000 - number, expected.get(key[0], 1_000))
    assert told == expected


def test_with_too_many_to_look_at_something_earlier_is_told_of_the_rest():
    found, _ = timers([(bytes([number]), 100 + number // 10) for number in range(200)])
    exact, told = found.by_bin(10_000), found.by_bin(45)
    assert len(told) == 256
    assert all(told[bin_] <= time for bin_, time in exact.items())
    assert set(told.values()) == {100, 101, 102, 103, 104}


def committed(entries):
    state = RecordingContext(TABLES).tasks[0]
    for key, time in entries.items():
        state.table("t").put(key, time)
    state.changes()
    state.apply(StoreMeta("T", 0, 0, 0, None))
    return state


def test_many_are_read_a_slice_at_a_time_and_nothing_is_due_before_all_are():
    entries = {str(number).encode(): number % 7 for number in range(500)}
    found = Timers(committed(entries), "t", lambda _, time: time, at_once=100)
    looks = 0
    taken = []
    while not taken:
        assert found.earliest == NEVER
        found.add(b"new", 3)
        taken = found.take(3, 1000)
        looks += 1
    assert looks == 4
    assert sorted(taken) == sorted([b"new", *(key for key, time in entries.items() if time <= 3)])
    assert found.earliest == 4


def test_what_is_not_committed_yet_is_read_with_the_rest():
    state = committed({b"a": 5, b"b": 6})
    state.table("t").put(b"c", 4)
    state.table("t").put(b"b", 3)
    found = Timers(state, "t", lambda _, time: time)
    assert found.take(4, 10) == [b"b", b"c"]
    assert found.take(9, 10) == [b"a"]


def test_an_entry_without_a_time_has_no_timer():
    found = Timers(committed({b"a": 5, b"b": 6}), "t", lambda key, time: time if key == b"b" else None)
    assert found.take(9, 10) == [b"b"]


def test_a_list_that_is_here_in_part_has_none_until_its_bin_has_come():
    spec = lists_spec("t")
    former = RecordingContext([spec], 1)
    former.tasks[0].lists("t").append_many([b"long", b"short"], [[[row] for row in range(20)], [[0]]], [5, 7])
    former.commit()
    with former.tasks[0].store.scan() as pairs:
        entries = dict(pairs)
    local = MemoryBackend().open(TaskId("stage", 0), 1)
    store = begin(local, [Layer("a", 0)], StoreMeta("id", 0, 0, 1, None))
    state = TaskState(TaskId("stage", 0), 1, store, [spec])
    store.install([(key, entries[key]) for key in state.table("t").store_keys([b"long", b"short"])])
    found = Timers(state, "t", lambda _, rows: rows.note)
    assert found.take(10, 10) == [b"short"]
    store.install_bins(0, 255, list(entries.items()))
    store.complete_bins(0, 255)
    found.catch_up()
    assert found.take(10, 10) == [b"long", b"short"]
