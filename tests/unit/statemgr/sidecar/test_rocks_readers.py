"""Reading stores beside their owner: at work, stopped, killed, started again."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from statemgr.errors import IncompatibleStoreError, NoSuchCopyError, StoreLockedError
from statemgr.layout import HOT_KEY, MIGRATION_KEY, SECONDARY_DIRECTORY, store_directory
from statemgr.sidecar import rocks_readers
from statemgr.sidecar.rocks_readers import RocksReaders
from statemgr.store import META_KEY, RocksBackend, StoreMeta
from statemgr.types import TaskId
from tests.unit.statemgr.sidecar.owner import SAME, TASK, Owner


@pytest.fixture
def readers(tmp_path):
    readers = RocksReaders(tmp_path)
    yield readers
    readers.close()


@pytest.fixture
def backend(tmp_path):
    backend = RocksBackend(tmp_path)
    yield backend
    backend.close()


@pytest.fixture
def owner(tmp_path):
    owner = Owner(tmp_path)
    yield owner
    owner.kill()


def meta(offset=4):
    return StoreMeta("T", offset, 1, 1, None)


def consistent(reader):
    """The offset that the copy has come to, once it is sure that entries and meta agree."""
    reader.catch_up()
    offset = reader.meta().offset
    assert reader.get_many(SAME) == [b"%d" % offset] * 2
    return offset


def test_what_an_owner_wrote_last_is_seen_after_it_has_closed_the_store(readers, backend):
    store = backend.open(TASK, 1)
    store.write([(b"key", b"1"), (b"other", b"1")], meta(1))
    early = readers.open(TASK, 1)
    store.write([(b"key", b"2")], meta(2))
    early.catch_up()
    store.write([(b"key", b"3")], meta(3))
    store.close()
    early.catch_up()
    assert (early.meta().offset, early.get_many([b"key", b"other"])) == (3, [b"3", b"1"])
    early.close()


def test_a_store_that_is_being_filled_is_read_as_far_as_it_is_in_files_and_followed_into_use(readers, backend):
    store = backend.open(TASK, 1, filling=True)
    store.write([(b"key", b"1")], meta(1))
    store.begin_flush()
    store.finish_flush()
    store.write([(b"key", b"2")], meta(2))
    early = readers.open(TASK, 1)
    assert (early.meta().offset, early.get_many([b"key"])) == (1, [b"1"])
    (store,) = backend.filled([(TASK, 1)])
    early.catch_up()
    assert (early.meta().offset, early.get_many([b"key"])) == (2, [b"2"])
    store.write([(b"key", b"3")], meta(3))
    early.catch_up()
    assert (early.meta().offset, early.get_many([b"key"])) == (3, [b"3"])
    early.close()


def test_all_readers_share_one_cache(readers, backend):
    backend.open(TASK, 1).close()
    reader = readers.open(TASK, 1)
    assert reader._property("rocksdb.block-cache-capacity") == rocks_readers.CACHE_BYTES
    reader.close()


@pytest.mark.slow
def test_a_copy_is_read_while_its_owner_writes_is_stopped_is_dead_and_is_back(readers, owner):
    owner.start()
    early = readers.open(TASK, 1)
    seen = [consistent(early) for _ in range(20)]
    assert seen == sorted(seen)
    assert seen[0] < seen[-1]

    owner.pause()
    during = readers.open(TASK, 1)
    stopped_at = consistent(during)
    assert consistent(early) == stopped_at

    owner.resume()
    owner.kill()
    after = readers.open(TASK, 1)
    died_at = consistent(after)
    assert died_at >= stopped_at
    assert consistent(early) == consistent(during) == died_at

    owner.start()
    assert all(consistent(reader) > died_at for reader in (early, during, after))
    for reader in (early, during, after):
        reader.close()


@pytest.mark.slow
def test_a_store_that_a_living_process_has_open_is_not_deleted(readers, owner, tmp_path):
    owner.start()
    with pytest.raises(StoreLockedError, match="open in another process"):
        readers.destroy(TASK, 1)
    owner.pause()
    with pytest.raises(StoreLockedError):
        readers.destroy(TASK, 1)
    owner.kill()
    readers.destroy(TASK, 1)
    readers.destroy(TASK, 1)
    assert readers.existing(TASK) == []


def test_a_scan_begins_where_it_is_told_and_leaves_out_the_store_s_own_records(readers, backend):
    entries = [(b"\x01aaa", b"1"), (b"\x01bbb", b"2"), (b"\x02aaa", b"3")]
    own = [(MIGRATION_KEY, b"m"), (HOT_KEY, b"h")]
    backend.open(TASK, 1).write(entries + own, meta())
    reader = readers.open(TASK, 1)
    for prefix, start, expected in (
        (b"", b"", entries),
        (b"\x01", b"", entries[:2]),
        (b"\x01", b"\x01b", entries[1:2]),
        (b"", b"\x01bbb\x00", entries[2:]),
        (b"", b"\x03", []),
    ):
        with reader.scan(prefix, start) as pairs:
            assert list(pairs) == expected
    assert (reader.migration(), reader.hot()) == (b"m", b"h")
    assert reader.get_many([META_KEY])[0] is not None
    reader.close()


def test_a_scan_keeps_what_it_began_with_while_the_copy_catches_up(readers, backend):
    store = backend.open(TASK, 1)
    store.write([(b"\x01aaa", b"1")], meta())
    reader = readers.open(TASK, 1)
    with reader.scan() as pairs:
        store.write([(b"\x01aaa", b"2"), (b"\x01bbb", b"2")], meta(5))
        reader.catch_up()
        assert list(pairs) == [(b"\x01aaa", b"1")]
    with reader.scan() as pairs:
        assert len(list(pairs)) == 2
    reader.close()


def test_stores_are_listed_and_nothing_else(readers, backend, tmp_path):
    for task, epoch in ((TASK, 2), (TASK, 10), (TaskId("other", 0), 1)):
        backend.open(task, epoch).close()
    (tmp_path / "count" / "7@1.removed").mkdir()
    (tmp_path / "statemgr.json").write_text("{}")
    assert readers.copies() == [(TASK, 2), (TASK, 10), (TaskId("other", 0), 1)]
    assert readers.existing(TASK) == [2, 10]


def test_what_is_no_store_is_no_copy_and_leaves_nothing_behind(readers, tmp_path):
    with pytest.raises(NoSuchCopyError):
        readers.open(TASK, 1)
    directory = store_directory(tmp_path, TASK, 1)
    assert not directory.exists()
    directory.mkdir(parents=True)
    with pytest.raises(NoSuchCopyError):
        readers.open(TASK, 1)


def test_a_store_of_another_format_is_refused(readers, backend, tmp_path):
    backend.open(TASK, 1).close()
    (store_directory(tmp_path, TASK, 1) / "towpath-store.json").write_text('{"format": 99}')
    with pytest.raises(IncompatibleStoreError, match="99"):
        readers.open(TASK, 1)


def test_an_owner_may_open_a_store_while_a_reader_rewrites_the_wrapper_s_file(backend, tmp_path):
    backend.open(TASK, 1).close()
    (store_directory(tmp_path, TASK, 1) / "rocksdict-config.json").write_text("")
    backend.open(TASK, 1).close()


def test_private_files_go_with_the_reader(readers, backend, tmp_path):
    backend.open(TASK, 1).write([(b"\x01aaa", b"1")], meta())
    private = tmp_path / SECONDARY_DIRECTORY
    (mine,) = private.iterdir()
    reader = readers.open(TASK, 1)
    assert len(list(mine.iterdir())) == 2
    reader.close()
    reader.close()
    assert len(list(mine.iterdir())) == 1
    readers.close()
    assert list(private.iterdir()) == []


@pytest.mark.slow
def test_private_files_of_a_killed_process_are_removed_and_those_of_a_living_one_are_not(readers, tmp_path):
    code = "import sys, time; from pathlib import Path; from statemgr.sidecar.rocks_readers import RocksReaders\n"
    code += "r = RocksReaders(Path(sys.argv[1])); print('there', flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    private = tmp_path / SECONDARY_DIRECTORY
    assert len(list(private.iterdir())) == 2
    child.send_signal(signal.SIGKILL)
    child.wait(10)
    child.stdout.close()
    second = RocksReaders(tmp_path)
    assert len(list(private.iterdir())) == 2
    second.close()


def test_estimates_count_entries_in_memory(readers, backend):
    backend.open(TASK, 1).write([(b"\x01k%d" % n, b"v" * 100) for n in range(1000)], meta())
    reader = readers.open(TASK, 1)
    keys, size = reader.estimates()
    assert 900 < keys < 1100
    assert size > 100_000
    reader.close()


def test_a_copy_whose_directory_vanished_is_gone(readers, backend, tmp_path):
    backend.open(TASK, 1).close()
    reader = readers.open(TASK, 1)
    shutil.rmtree(store_directory(tmp_path, TASK, 1))
    with pytest.raises(NoSuchCopyError, match="was deleted"):
        reader.catch_up()
    reader.close()


def test_a_directory_without_stores_has_none(tmp_path):
    readers = RocksReaders(Path(tmp_path / "new"))
    assert readers.copies() == []
    readers.close()
