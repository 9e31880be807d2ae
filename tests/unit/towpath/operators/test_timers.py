"""Timers of entries of state."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from statemgr.state import TableSpec, json_codec
from tests.unit.towpath.operators.recording import RecordingContext
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
