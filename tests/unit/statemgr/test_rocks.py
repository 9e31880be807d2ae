"""RocksDB only: locks, damage, foreign directories, memory, and faults in every step."""

from __future__ import annotations

import json
import logging
import os
import pathlib
import resource
import signal
import subprocess
import sys
from random import Random

import pytest
from rocksdict import Options, Rdict

from statemgr.errors import (
    CorruptStoreError,
    IncompatibleStoreError,
    StopRequestedError,
    StoreLockedError,
    StoreWriteError,
)
from statemgr.layout import store_directory
from statemgr.store import RocksBackend, RocksSettings, StoreMeta, directories, rocks, rocks_backend
from statemgr.store.rocks_options import raise_file_limit
from statemgr.types import TaskId

TASK = TaskId("count", 0)
ENTRIES = [(b"k%04d" % number, b"v" * 50) for number in range(2_000)]


def meta(offset=0):
    return StoreMeta("T", offset, 0, 1, None)


@pytest.fixture
def backend(tmp_path):
    made = RocksBackend(tmp_path, RocksSettings(lock_timeout_s=0))
    yield made
    made.close()


@pytest.fixture
def directory(tmp_path, backend):
    """A closed store with data in a table file and in the write-ahead log."""
    store = backend.open(TASK, 1)
    store.write(ENTRIES, meta(1))
    store._database.flush()
    store.write([(b"late", b"1")], meta(2))
    store.close()
    return store_directory(tmp_path, TASK, 1)


def flip(path, position):
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(bytes(data))


# -- damage ---------------------------------------------------------------------------------------------------------


def damage_manifest(directory):
    flip(next(directory.glob("MANIFEST-*")), 10)


def lose_table_file(directory):
    next(directory.glob("*.sst")).unlink()


def cut_table_file(directory):
    os.truncate(next(directory.glob("*.sst")), 60)


def lose_current(directory):
    (directory / "CURRENT").unlink()


@pytest.mark.parametrize("damage", [damage_manifest, lose_table_file, cut_table_file, lose_current])
def test_a_damaged_store_is_named_with_path_and_bytes_and_can_be_replaced(backend, directory, damage):
    damage(directory)
    with pytest.raises(CorruptStoreError, match=r"count/0@1.*bytes\).*rebuilt from the changelog") as caught:
        backend.open(TASK, 1)
    assert str(directory) in str(caught.value)
    assert (caught.value.task, caught.value.epoch) == (TASK, 1)
    backend.destroy(TASK, 1)
    assert backend.open(TASK, 1).meta() is None


def test_a_damaged_block_is_an_error_for_reads_and_for_scans_never_an_early_end(tmp_path, directory):
    backend = RocksBackend(tmp_path)  # the former one has the block in its cache
    flip(max(directory.glob("*.sst"), key=lambda path: path.stat().st_size), 30)
    store = backend.open(TASK, 1)
    with pytest.raises(CorruptStoreError):
        store.get_many([ENTRIES[0][0]])
    with pytest.raises(CorruptStoreError), store.scan() as pairs:
        list(pairs)
    store.close()
    backend.open(TASK, 1).close()


# -- foreign directories --------------------------------------------------------------------------------------------


def test_a_database_of_another_program_is_refused_not_read_as_empty(tmp_path, backend):
    directory = store_directory(tmp_path, TASK, 1)
    directory.parent.mkdir(parents=True)
    Rdict(str(directory), Options()).close()
    with pytest.raises(IncompatibleStoreError, match=r"database without towpath-store\.json.*delete 0@1"):
        backend.open(TASK, 1)


def test_a_store_that_was_opened_without_raw_mode_is_refused(backend, directory):
    Rdict(str(directory), Options()).close()
    with pytest.raises(IncompatibleStoreError, match="without raw mode"):
        backend.open(TASK, 1)


@pytest.mark.parametrize("text", [json.dumps({**directories.MARK, "format": 99}), "{", "[]"])
def test_a_store_of_another_format_is_refused(backend, directory, text):
    (directory / directories.MARK_NAME).write_text(text)
    with pytest.raises(IncompatibleStoreError, match="delete 0@1 to have it rebuilt"):
        backend.open(TASK, 1)


def test_a_meta_record_of_another_format_is_refused(backend):
    store = backend.open(TASK, 1)
    store.write([], StoreMeta("T", 0, 0, 1, None, format=99))
    with pytest.raises(IncompatibleStoreError, match="has format 99"):
        store.meta()


def test_a_meta_record_that_is_none_is_damage(backend):
    store = backend.open(TASK, 1)
    store._database.put(rocks.META_KEY, b"{")
    with pytest.raises(CorruptStoreError, match="meta record"):
        store.meta()


def test_directories_that_are_no_stores_are_not_listed(tmp_path, backend, directory):
    for name in ("0@x", "0@", "0@2.new", "0@3.removed", "0", "00@7", "0@²"):
        (directory.parent / name).mkdir()
    assert backend.existing(TASK) == [1]


def test_a_directory_in_which_nothing_was_made_yet_is_used(tmp_path, backend):
    store_directory(tmp_path, TASK, 1).mkdir(parents=True)
    assert backend.open(TASK, 1).meta() is None


# -- locks ----------------------------------------------------------------------------------------------------------

HOLD = """
import sys
from pathlib import Path
from statemgr.store import RocksBackend
from statemgr.types import TaskId
store = RocksBackend(Path(sys.argv[1])).open(TaskId("count", 0), 1)
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another live process that has the store open."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "open\n"
    yield process
    process.kill()
    process.communicate()


class FakeTime:
    """A clock that moves when somebody sleeps."""

    def __init__(self, on_sleep=lambda _now: None):
        self.now = 0.0
        self.on_sleep = on_sleep

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.on_sleep(self.now)


def backend_with(tmp_path, time, stop=lambda: False):
    return RocksBackend(tmp_path, RocksSettings(lock_timeout_s=10), stop=stop, clock=time.clock, sleep=time.sleep)


@pytest.mark.slow
def test_a_lock_of_a_live_process_is_waited_for_until_the_deadline(tmp_path, holder):
    time = FakeTime()
    with pytest.raises(StoreLockedError, match=r"0@1 stayed locked by another process for 10 s.*stop that process"):
        backend_with(tmp_path, time).open(TASK, 1)
    assert time.now == pytest.approx(10, abs=0.1)


@pytest.mark.slow
def test_a_store_is_opened_as_soon_as_its_holder_ends(tmp_path, holder):
    def end(now):
        if now > 1:
            holder.send_signal(signal.SIGKILL)
            holder.wait()

    time = FakeTime(end)
    assert backend_with(tmp_path, time).open(TASK, 1).meta() is None
    assert 1 < time.now < 10


@pytest.mark.slow
def test_the_wait_for_a_lock_ends_on_a_stop_request(tmp_path, holder):
    with pytest.raises(StopRequestedError, match="lock of"):
        backend_with(tmp_path, FakeTime(), stop=lambda: True).open(TASK, 1)


@pytest.mark.slow
def test_a_store_that_another_process_has_open_is_not_deleted(tmp_path, backend, holder):
    with pytest.raises(StoreLockedError, match="open in another process"):
        backend.destroy(TASK, 1)
    assert backend.existing(TASK) == [1]


@pytest.mark.slow
def test_a_lock_is_held_exactly_while_a_store_is_open(tmp_path, backend):
    """Random order of opening, closing, deleting and forking by owner and clean-up."""
    random = Random(1)
    stores = {}
    for _ in range(300):
        epoch = random.randrange(3)
        action = random.choice(["open", "open", "close", "destroy", "fork"])
        try:
            if action == "open":
                stores[epoch] = backend.open(TASK, epoch)
            elif action == "close" and epoch in stores:
                stores.pop(epoch).close()
            elif action == "destroy":
                backend.destroy(TASK, epoch)
            elif action == "fork" and epoch in backend.existing(TASK):
                backend.fork(TASK, epoch, (epoch + 1) % 3)
        except StoreLockedError:
            assert {epoch, (epoch + 1) % 3} & set(stores)
        for known in backend.existing(TASK):
            assert is_locked(store_directory(tmp_path, TASK, known)) == (known in stores)


def is_locked(directory):
    """Whether another process finds the directory locked (a lock of one's own process is no obstacle)."""
    lock = directory / "LOCK"
    return lock.exists() and f":{lock.stat().st_ino} " in pathlib.Path("/proc/locks").read_text()


# -- a killed process -----------------------------------------------------------------------------------------------

WRITE_AND_DIE = """
import os, sys
from pathlib import Path
from statemgr.store import RocksBackend, StoreMeta
from statemgr.types import TaskId
store = RocksBackend(Path(sys.argv[1])).open(TaskId("count", 0), 1)
for offset in range(50):
    store.write([(b"key", b"%d" % offset), (b"k%02d" % offset, b"x")], StoreMeta("T", offset, 0, 1, None))
os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
def test_a_killed_process_leaves_entries_and_meta_of_the_same_batch(tmp_path, backend):
    subprocess.run([sys.executable, "-c", WRITE_AND_DIE, str(tmp_path)], check=False)
    store = backend.open(TASK, 1)
    assert store.meta() == meta(49)
    assert store.get_many([b"key"]) == [b"49"]


FILL_AND_DIE = """
import os, sys
from pathlib import Path
from statemgr.store import RocksBackend, RocksSettings, StoreMeta
from statemgr.types import TaskId
settings = RocksSettings(store_write_buffer_bytes=1 << 17)
store = RocksBackend(Path(sys.argv[1]), settings).open(TaskId("count", 0), 1, filling=True)
for offset in range(400):
    store.write([(b"key", b"%d" % offset), (b"k%03d" % offset, os.urandom(2_000))], StoreMeta("T", offset, 0, 1, None))
store.begin_flush()
store.finish_flush()
for offset in range(400, 500):
    store.write([(b"key", b"%d" % offset), (b"k%03d" % offset, os.urandom(2_000))], StoreMeta("T", offset, 0, 1, None))
os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
def test_a_process_killed_while_it_fills_a_store_leaves_an_older_base_whole(tmp_path, backend):
    subprocess.run([sys.executable, "-c", FILL_AND_DIE, str(tmp_path)], check=False)
    store = backend.open(TASK, 1)
    last = store.meta().offset
    assert 399 <= last < 500
    assert store.get_many([b"key"]) == [b"%d" % last]
    found = store.get_many([b"k%03d" % offset for offset in range(500)])
    assert [value is not None for value in found] == [offset <= last for offset in range(500)]


@pytest.mark.slow
def test_a_cut_write_ahead_log_leaves_an_older_base_whole(tmp_path, backend):
    subprocess.run([sys.executable, "-c", WRITE_AND_DIE, str(tmp_path)], check=False)
    log = max(store_directory(tmp_path, TASK, 1).glob("*.log"), key=lambda path: path.stat().st_size)
    os.truncate(log, log.stat().st_size - 3)
    store = backend.open(TASK, 1)
    assert store.meta() == meta(48)
    assert store.get_many([b"key", b"k48", b"k49"]) == [b"48", b"x", None]


# -- faults in every step -------------------------------------------------------------------------------------------


class FaultError(Exception):
    pass


def breaking(monkeypatch, owner, name):
    def fail(*_args, **_kwargs):
        raise FaultError

    monkeypatch.setattr(owner, name, fail)


STEPS = [
    ("open", directories, "prepare"),
    ("open", rocks_backend, "Rdict"),
    ("open", rocks_backend, "RocksStore"),
    ("meta", rocks, "decode_meta"),
    ("write", rocks, "encode_meta"),
    ("write", rocks, "WriteBatch"),
    ("scan", rocks.RocksStore, "_walk"),
    ("fork", rocks.RocksStore, "checkpoint"),
    ("fork", directories, "write_mark"),
    ("destroy", directories, "probed_lock"),
]


@pytest.mark.parametrize(("action", "owner", "name"), STEPS, ids=[f"{step[0]}-{step[2]}" for step in STEPS])
def test_a_fault_in_any_step_leaves_the_lock_free_and_the_next_open_succeeds(
    monkeypatch, backend, directory, action, owner, name
):
    actions = {
        "open": lambda: backend.open(TASK, 1),
        "meta": lambda: backend.open(TASK, 1).meta(),
        "write": lambda: backend.open(TASK, 1).write(ENTRIES, meta(9)),
        "scan": lambda: backend.open(TASK, 1).scan().__enter__(),
        "fork": lambda: backend.fork(TASK, 1, 2),
        "destroy": lambda: backend.destroy(TASK, 1),
    }
    with monkeypatch.context() as patch:
        breaking(patch, owner, name)
        with pytest.raises((FaultError, CorruptStoreError)):
            actions[action]()
    backend.close()
    store = backend.open(TASK, 1)
    assert store.meta() == meta(2)
    store.close()
    backend.fork(TASK, 1, 2)
    assert backend.existing(TASK) == [1, 2]


def test_a_fault_in_close_is_not_repeated_by_the_next_close(monkeypatch, backend, directory):
    class Sick:
        def __init__(self, database):
            self.database = database

        def close(self):
            self.database.close()
            raise FaultError

    store = backend.open(TASK, 1)
    store._database = Sick(store._database)
    with pytest.raises(FaultError):
        store.close()
    store.close()
    assert backend.open(TASK, 1).meta() == meta(2)


def test_a_write_that_rocksdb_refuses_is_a_store_write_error(backend):
    class Full:
        def write(self, _batch):
            raise Exception("IO error: No space left on device")

        def close(self):
            pass

    store = backend.open(TASK, 1)
    real, store._database = store._database, Full()
    with pytest.raises(StoreWriteError, match=r"count/0@1.*No space left.*check free space"):
        store.write([], meta())
    store._database = real


def test_an_interrupted_removal_is_finished_by_the_next_one(monkeypatch, backend, directory):
    with monkeypatch.context() as patch:
        breaking(patch, directories.shutil, "rmtree")
        with pytest.raises(FaultError):
            backend.destroy(TASK, 1)
    assert backend.existing(TASK) == []
    assert backend.open(TASK, 1).meta() is None
    backend.close()
    backend.destroy(TASK, 1)
    assert list(directory.parent.iterdir()) == []


# -- memory ---------------------------------------------------------------------------------------------------------


def test_the_memory_budget_is_the_same_for_one_store_and_for_64():
    settings = RocksSettings()
    assert settings.budget_bytes(64) == settings.budget_bytes(1) == settings.cache_bytes


@pytest.mark.parametrize("filled", [False, True])
def test_a_store_that_is_opened_again_uses_the_cache_of_all(tmp_path, filled):
    backend = RocksBackend(tmp_path, RocksSettings(cache_bytes=3 << 20, write_buffer_bytes=1 << 20))
    store = backend.open(TASK, 1, filling=filled)
    store.write(ENTRIES, meta())
    store.close()
    again = backend.open(TASK, 1)
    assert again._database.property_int_value("rocksdb.block-cache-capacity") == 3 << 20


@pytest.mark.slow
def test_64_stores_that_write_stay_within_the_write_buffers_of_one(tmp_path):
    mib = 1024 * 1024
    backend = RocksBackend(tmp_path, RocksSettings(cache_bytes=16 * mib, write_buffer_bytes=2 * mib))
    stores = [backend.open(TaskId("count", number), 1) for number in range(64)]
    highest = 0
    for round_ in range(2):
        for store in stores:
            store.write([(b"%d-%d" % (round_, n), b"v" * 500) for n in range(60)], meta())
            highest = max(highest, backend._memory.write_buffers.get_usage())
    backend.close()
    assert 1.5 * mib < highest < 2.5 * mib  # 64 × 2 × 30 kB = 3.8 MB were written; one batch over is allowed


def test_ten_thousand_abandoned_scans_pin_nothing(backend, directory):
    store = backend.open(TASK, 1)
    pinned = set()
    for _ in range(10_000):
        with store.scan(b"k1") as pairs:
            next(pairs)
        pinned.add(backend._memory.cache.get_pinned_usage())
    assert len(pinned) == 1
    store.close()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"write_buffer_bytes": 0}, "must be above 0"),
        ({"cache_bytes": 1}, "at most cache_bytes=1"),
        ({"store_write_buffer_bytes": 1}, "must be at least 65536"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        RocksSettings(**wrong)


def test_the_file_limit_is_raised_within_what_the_system_allows():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        assert raise_file_limit(300) == 300
        assert raise_file_limit(100) == 300
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (300, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_nothing_is_logged_when_all_is_well(caplog, backend, directory):
    with caplog.at_level(logging.DEBUG, logger="statemgr"):
        backend.open(TASK, 1).close()
    assert caplog.records == []
