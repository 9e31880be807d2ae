"""Copies that are open for reading."""

from __future__ import annotations

import contextlib
import threading

import pytest

from statemgr.errors import CorruptStoreError, HolderUnavailableError, NoSuchCopyError, StoreLockedError
from statemgr.sidecar.copies import OpenCopies
from statemgr.sidecar.readers import MemoryReaders
from statemgr.store import MemoryBackend, StoreMeta
from statemgr.testing import ManualClock
from statemgr.types import TaskId

TASK = TaskId("count", 3)


class Counting(MemoryReaders):
    """Counts how often a copy is opened."""

    opened = 0

    def open(self, task, epoch):
        self.opened += 1
        return super().open(task, epoch)


@pytest.fixture
def backend():
    backend = MemoryBackend()
    store = backend.open(TASK, 1)
    store.write([(b"key", b"1")], StoreMeta("T", 4, 1, 1, None))
    store.close()
    return backend


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def readers(backend):
    return Counting(backend)


@pytest.fixture
def copies(readers, clock):
    return OpenCopies(readers, clock)


def read(copies, deadline_s=0.0):
    return copies.use(TASK, 1, deadline_s, lambda reader: reader.get_many([b"key"]))


def test_a_copy_is_opened_once_and_closed_when_nobody_asks_any_more(copies, readers, clock):
    assert read(copies) == read(copies) == [b"1"]
    assert readers.opened == 1
    clock.advance(59)
    copies.close_unused(60)
    read(copies)
    assert readers.opened == 1
    clock.advance(60)
    copies.close_unused(60)
    read(copies)
    assert readers.opened == 2


def test_a_copy_that_can_t_be_read_is_opened_anew_once(copies, readers):
    broken = [True]

    def work(reader):
        if broken.pop():
            raise CorruptStoreError("a file is missing", TASK, 1)
        return reader.get_many([b"key"])

    broken.insert(0, False)
    assert copies.use(TASK, 1, 0.0, work) == [b"1"]
    assert readers.opened == 2


def test_a_copy_that_stays_unreadable_is_no_copy(copies, readers):
    def work(_reader):
        raise CorruptStoreError("the store is damaged", TASK, 1)

    with pytest.raises(NoSuchCopyError, match="the store is damaged"):
        copies.use(TASK, 1, 0.0, work)
    assert readers.opened == 2
    assert read(copies) == [b"1"]


def test_one_that_others_use_is_waited_for_until_the_deadline(copies, clock):
    def nested(_reader):
        with pytest.raises(HolderUnavailableError, match=r"copy count/3@1 was busy"):
            read(copies, clock.monotonic_s())
        clock.advance(100)
        copies.close_unused(60)
        return True

    assert copies.use(TASK, 1, 0.0, nested)
    assert read(copies) == [b"1"]


def test_a_deleted_copy_is_gone_also_for_those_who_waited_for_it(copies, backend, clock):
    inside, go_on, failures = threading.Event(), threading.Event(), []

    def hold(_reader):
        inside.set()
        go_on.wait(10)

    def late():
        try:
            read(copies, clock.monotonic_s() + 10)
        except NoSuchCopyError as error:
            failures.append(error)

    holder = threading.Thread(target=lambda: copies.use(TASK, 1, 0.0, hold))
    holder.start()
    inside.wait(10)
    with pytest.raises(HolderUnavailableError):
        copies.destroy(TASK, 1, timeout_s=0.0)
    go_on.set()
    holder.join(10)
    copies.destroy(TASK, 1, timeout_s=10)
    waiter = threading.Thread(target=late)
    waiter.start()
    waiter.join(10)
    assert len(failures) == 1
    assert backend.existing(TASK) == []


def test_one_that_the_replica_has_open_is_not_deleted_and_stays_readable(copies, backend):
    backend.open(TASK, 1)
    with pytest.raises(StoreLockedError):
        copies.destroy(TASK, 1, timeout_s=0.0)
    assert read(copies) == [b"1"]


def test_close_closes_all(copies, readers):
    read(copies)
    copies.close(timeout_s=0.0)
    read(copies)
    assert readers.opened == 2


def test_a_store_that_was_made_anew_under_the_same_name_is_read_and_not_the_one_before(copies, backend):
    """The former one may be complete up to a larger offset, of another changelog: it would seem new enough."""
    assert read(copies) == [b"1"]
    backend.destroy(TASK, 1)
    store = backend.open(TASK, 1)
    store.write([(b"key", b"anew")], StoreMeta("T2", 2, 1, 1, None))
    store.close()
    assert read(copies) == [b"anew"]


@pytest.mark.parametrize("ended_by", ["idleness", "destroy", "close", "a use that fails"])
def test_one_that_can_t_be_closed_is_forgotten_and_opened_anew(copies, readers, backend, clock, caplog, ended_by):
    """RocksDB's own exceptions are bare ones."""

    def fail():
        raise Exception("Corruption: while closing")

    def break_it(reader):
        reader.close = fail
        if ended_by == "a use that fails":
            raise NoSuchCopyError("gone")

    with contextlib.suppress(NoSuchCopyError):
        copies.use(TASK, 1, 0.0, break_it)
    clock.advance(100)
    match ended_by:
        case "idleness":
            copies.close_unused(60)
        case "destroy":
            copies.destroy(TASK, 1, timeout_s=0.0)
            backend.open(TASK, 1).write([(b"key", b"1")], StoreMeta("T", 4, 1, 1, None))
        case "close":
            copies.close(timeout_s=0.0)
    assert "can't be closed: Exception: Corruption: while closing" in caplog.text
    assert read(copies) == [b"1"]
    assert readers.opened == 2
