"""Which files of a task are open and closed."""

from __future__ import annotations

from statemgr.state import TableSpec, json_codec
from tests.unit.towpath.operators.recording import RecordingContext
from towpath.operators.file_index import FileIndex, PartFile


def index(**files: PartFile) -> FileIndex:
    state = RecordingContext([TableSpec("files", 0, json_codec(PartFile))]).tasks[0]
    for key, file in files.items():
        state.table("files").put(key.encode(), file)
    return FileIndex(state, "files")


def test_it_is_read_from_state():
    found = index(a=PartFile("1", [], 30), b=PartFile("2", [], 10), c=PartFile("3", [], 20, closed=True))
    assert found.earliest == 10
    assert found.closed == {b"c": 20}
    assert found.ended(30, 5) == [b"b", b"a"]


def test_a_file_that_is_closed_ends_no_more():
    found = index()
    found.add(b"a", 10)
    found.add(b"b", 20)
    found.close(b"a", b"1", 10)
    assert found.earliest == 20
    assert found.closed == {b"1": 10}
    found.add(b"a", 10)
    assert found.ended(10, 5) == [b"a"]
    assert found.ended(10, 5) == []


def test_no_more_end_at_once_than_are_asked_for():
    found = index()
    for number in range(5):
        found.add(bytes([number]), number)
    assert found.ended(9, 2) == [b"\x00", b"\x01"]
    assert found.earliest == 2


def test_age_counts_from_the_first_look():
    found = index(a=PartFile("1", [], 0))
    assert found.aged(100.0, 5.0) == []
    found.add(b"b", 0)
    assert found.aged(104.0, 5.0) == []
    assert found.aged(105.0, 5.0) == [b"a"]
    found.close(b"a", b"1", 0)
    found.add(b"a", 0)
    assert found.aged(109.0, 5.0) == [b"b"]
    assert found.aged(114.0, 5.0) == [b"b", b"a"]


def test_that_of_another_state_is_not_this():
    context = RecordingContext([TableSpec("files", 0, json_codec(PartFile))])
    found = FileIndex(context.tasks[0], "files")
    assert found.is_of(context.tasks[0])
    assert not found.is_of(context.tasks[1])
