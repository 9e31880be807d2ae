"""A task's tail: order, batches, and where each batch leaves the store."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from statemgr.changelog.model import Source
from statemgr.changelog.tail import Tail
from statemgr.errors import CodecError
from statemgr.layout import PROGRESS_KEY, changelog_key, store_key
from statemgr.progress import InputProgress, Progress, encode_progress
from statemgr.store import MemoryBackend, StoreMeta
from statemgr.types import TaskId, TopicPartition

TASK = TaskId("count", 0)
KEY = changelog_key(1, b"k")


def progress(high):
    return Progress(1, {"bids": InputProgress(high, high)})


def tail_of(start=0, end=100, *, chunk_bytes=10**6, known=None):
    tail = Tail(TASK, 3, TopicPartition("log", 0), "T", chunk_bytes, lambda: 42)
    base = StoreMeta("T", start - 1, 7, 3, known)
    tail.begin(MemoryBackend().open(TASK, 3), Source.TAIL, start, end, base)
    return tail


class Record(NamedTuple):
    """A message; its fields are called, as the client's are."""

    at: int
    name: bytes | None
    content: bytes | None

    def offset(self):
        return self.at

    def key(self):
        return self.name

    def value(self):
        return self.content


def test_nothing_is_written_before_a_chunk_is_full_or_the_end_is_reached():
    tail = tail_of(end=2)
    tail.add([Record(0, KEY, b"1")])
    assert tail.store.meta() is None
    tail.add([Record(1, KEY, b"2")])
    tail.finish()
    assert tail.store.get_many([store_key(KEY)]) == [b"2"]


def test_a_full_chunk_is_written_with_its_own_offset_and_the_progress_seen_so_far():
    tail = tail_of(chunk_bytes=8, known=progress(1))
    tail.add([Record(5, KEY, b"12345")])
    meta = tail.store.meta()
    assert (meta.offset, meta.progress, meta.epoch, meta.topic_id, meta.committed_at_ms) == (5, progress(1), 3, "T", 7)
    tail.add([Record(6, PROGRESS_KEY, encode_progress(progress(2)))])
    tail.add([Record(7, KEY, b"54321")])
    assert (tail.store.meta().offset, tail.store.meta().progress) == (7, progress(2))


def test_finish_claims_everything_up_to_the_last_record_but_not_the_markers_behind_it():
    tail = tail_of(end=9)
    tail.add([Record(6, KEY, b"1")])
    tail.pass_markers(9)
    tail.finish()
    assert tail.store.meta().offset == 6


def test_a_tail_of_nothing_but_markers_leaves_the_offset_of_its_base():
    tail = tail_of(start=5, end=9)
    tail.pass_markers(9)
    tail.finish()
    assert tail.store.meta().offset == 4


def test_an_empty_log_ends_at_minus_one():
    tail = tail_of(end=0)
    tail.finish()
    assert tail.store.meta().offset == -1


@pytest.mark.parametrize("offset", [0, 9, 20, 21])
def test_records_outside_of_what_is_to_be_read_are_ignored(offset):
    tail = tail_of(start=10, end=20)
    tail.add([Record(offset, KEY, b"1")])
    assert (tail.next, tail.records) == (10, 0)


def test_a_run_of_records_is_taken_up_to_the_end_with_its_last_values():
    tail = tail_of(start=10, end=20)
    tail.add([Record(9, KEY, b"no")])
    other = changelog_key(1, b"other")
    tail.add(
        [
            Record(9, KEY, b"no"),
            Record(11, KEY, b"1"),
            Record(12, PROGRESS_KEY, encode_progress(progress(1))),
            Record(13, other, b"2"),
            Record(15, KEY, None),
            Record(16, PROGRESS_KEY, encode_progress(progress(2))),
            Record(19, other, b"3"),
            Record(20, KEY, b"no"),
        ]
    )
    tail.finish()
    assert (tail.next, tail.remaining, tail.records, tail.progress) == (20, 0, 6, progress(2))
    assert tail.store.get_many([store_key(KEY), store_key(other), store_key(PROGRESS_KEY)]) == [None, b"3", None]


@pytest.mark.parametrize(
    ("position", "moved", "following"), [(None, False, 10), (5, False, 10), (15, True, 15), (99, True, 20)]
)
def test_a_position_moves_forward_only_and_not_beyond_the_end(position, moved, following):
    tail = tail_of(start=10, end=20)
    assert tail.pass_markers(position) is moved
    assert tail.next == following


@pytest.mark.parametrize("key", [None, b"", b"k"])
def test_a_key_without_table_id_is_refused_with_its_place(key):
    with pytest.raises(CodecError, match=r"log\[0\] offset 4.*2-byte table id"):
        tail_of().add([Record(4, key, b"1")])


def test_beginning_again_forgets_what_waits():
    tail = tail_of()
    tail.add([Record(0, KEY, b"1")])
    tail.begin(MemoryBackend().open(TASK, 3), Source.FULL, 50, 60, None)
    tail.finish()
    report = tail.restored()
    assert report.store.get_many([store_key(KEY)]) == [None]
    assert (report.source, report.progress) == (Source.FULL, None)


def test_a_base_grows_younger_only_when_the_end_is_reached():
    """Until then a delete that lies ahead may leave the log, however often the restore is interrupted (R12)."""
    tail = tail_of(end=3, chunk_bytes=1)
    tail.add([Record(0, KEY, b"1")])
    tail.add([Record(1, KEY, b"2")])
    assert tail.store.meta().committed_at_ms == 7
    tail.add([Record(2, KEY, None)])
    tail.finish()
    assert tail.store.meta().committed_at_ms == 42
