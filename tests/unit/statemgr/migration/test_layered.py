"""A store over layers: what counts, what may arrive, and what a crash leaves (R7, R8, R9, I4)."""

from __future__ import annotations

import pytest

from statemgr.control.records import Layer
from statemgr.errors import CodecError, MissingStateError, StoreWriteError
from statemgr.layout import BIN_COUNT, HOT_KEY, MIGRATION_KEY, changelog_key, store_key, tombstone_key
from statemgr.migration.layered import LayeredStore, begin, record_of, reopen
from statemgr.store import MemoryBackend, RocksBackend
from tests.unit.statemgr.migration.world import TASK, content, meta, name_of

LAYERS = (Layer("a", 1),)
KEYS = [name_of(number) for number in range(40)]
A, B, C = KEYS[:3]


@pytest.fixture(params=["memory", "rocksdb"])
def backend(request, tmp_path):
    made = MemoryBackend() if request.param == "memory" else RocksBackend(tmp_path)
    yield made
    made.close()


@pytest.fixture
def store(backend):
    return begin(backend.open(TASK, 2), LAYERS, meta(10, 2))


def test_it_begins_with_its_layers_and_where_they_are_complete(store):
    assert (store.record.layers, store.record.cut, store.complete) == (LAYERS, 10, False)
    assert store.meta() == meta(10, 2)
    assert record_of(store.local) == store.record
    assert content(store) == {}


def test_one_that_can_not_be_begun_is_closed(backend, monkeypatch):
    """Else nobody could delete it or open it again."""
    local = backend.open(TASK, 2)

    def full(*_):
        raise StoreWriteError("no space left on device")

    monkeypatch.setattr(local, "write", full)
    with pytest.raises(StoreWriteError):
        begin(local, LAYERS, meta(10, 2))
    backend.destroy(TASK, 2)
    assert begin(backend.open(TASK, 2), LAYERS, meta(10, 2)).meta() == meta(10, 2)


def test_reading_an_unresolved_key_is_refused_with_the_remedy(store):
    with pytest.raises(MissingStateError, match=r"1 of 2 keys.*ask unresolved\(\) first"):
        store.install([(A, b"1")])
        store.get_many([A, B])
    assert store.get_many([A]) == [b"1"]


def test_values_and_absences_that_arrive_resolve_keys(store):
    assert store.unresolved([A, B, C]) == [A, B, C]
    store.install([(A, b"1"), (B, None)])
    assert store.unresolved([C, B, A]) == [C]
    assert store.get_many([B, A]) == [None, b"1"]
    assert (store.asked, store.missing) == (6, 4)


def test_what_arrives_never_replaces_what_is_here(store):
    store.write([(A, b"new"), (B, None)], meta(11, 2))
    for _ in range(2):
        store.install([(A, b"old"), (B, b"old")])
        store.install_bins(0, 255, [(A, b"old"), (B, b"old"), (C, b"old")])
        store.install([(C, b"older")])
        store.install_bins(0, 255, [(C, None)])
    assert store.get_many([A, B, C]) == [b"new", None, b"old"]


def test_a_key_deleted_and_set_again_in_one_batch_or_the_next_is_there(store):
    store.write([(A, b"1"), (A, None), (A, b"2"), (B, b"1"), (B, None)], meta(11, 2))
    store.write([(B, b"3")], meta(12, 2))
    store.complete_bins(0, 255)
    assert content(store) == {A: b"2", B: b"3"}


def test_a_delete_in_a_complete_bin_needs_no_tombstone(store):
    store.complete_bins(A[0], A[0])
    store.write([(A, None), (B, None)], meta(11, 2))
    assert store.local.get_many([tombstone_key(A), tombstone_key(B)]) == [None, b""]


def test_what_arrives_late_for_a_complete_bin_is_dropped(store):
    store.write([(A, b"1")], meta(11, 2))
    store.complete_bins(0, 255)
    store.write([(A, None)], meta(12, 2))
    store.install([(A, b"old")])
    store.install_bins(0, 255, [(A, b"old")])
    assert content(store) == {}


def test_entries_outside_of_the_bins_that_were_asked_for_are_dropped(store):
    other = next(key for key in KEYS if key[0] != A[0])
    store.write([(other, b"new")], meta(11, 2))
    store.install_bins(A[0], A[0], [(other, b"old"), (A, b"1")])
    assert content(store) == {A: b"1", other: b"new"}


def test_a_write_while_its_bin_arrives_counts(store):
    store.install_bins(0, 255, [(A, b"old")])
    store.write([(A, b"new"), (B, b"new"), (C, None)], meta(11, 2))
    store.install_bins(0, 255, [(A, b"older"), (B, b"old"), (C, b"old")])
    store.complete_bins(0, 255)
    assert content(store) == {A: b"new", B: b"new"}


def test_completing_a_bin_removes_its_tombstones_and_no_others(store):
    store.write([(key, None) for key in KEYS], meta(11, 2))
    store.complete_bins(A[0], A[0])
    left = [key for key in KEYS if store.local.get_many([tombstone_key(key)]) == [b""]]
    assert left == [key for key in KEYS if key[0] != A[0]]
    assert store.has_bin(A[0])
    assert not store.complete


def test_the_last_bin_removes_the_record_and_the_store_is_like_any_other(store, backend):
    store.write([(A, b"1"), (B, None)], meta(11, 2))
    for bin_ in range(BIN_COUNT):
        store.complete_bins(bin_, bin_)
    assert store.complete
    assert store.local.get_many([MIGRATION_KEY, tombstone_key(B)]) == [None, None]
    store.close()
    again = reopen(backend.open(TASK, 2))
    assert not isinstance(again, LayeredStore)
    assert (content(again), again.meta()) == ({A: b"1"}, meta(11, 2))


def test_an_incomplete_store_is_opened_as_it_was_left(store, backend):
    store.install([(A, b"1"), (B, None)])
    store.complete_bins(C[0], C[0])
    store.took_over(17)
    store.close()
    again = reopen(backend.open(TASK, 2))
    assert again.record == store.record
    assert again.record.cut == 17
    assert again.get_many([A, B, C]) == [b"1", None, None]
    assert again.meta() == meta(10, 2)


def test_own_records_pass_as_they_are(store):
    store.write([(HOT_KEY, b"hot")], meta(11, 2))
    assert store.get_many([HOT_KEY]) == [b"hot"]
    store.put_raw([(HOT_KEY, None), (A, None)])
    assert store.get_many([HOT_KEY, A]) == [None, None]
    assert store.local.get_many([tombstone_key(HOT_KEY), tombstone_key(A)]) == [None, b""]
    assert content(store) == {}


def test_a_scan_shows_no_tombstones(store):
    store.write([(A, b"1"), (B, None)], meta(11, 2))
    with store.scan(A[:1]) as pairs:
        assert list(pairs) == [(A, b"1")]


def test_write_batches_of_what_arrives_are_small(store, monkeypatch):
    sizes = []
    put_raw = store.local.put_raw

    def counting(entries):
        batch = list(entries)
        sizes.append(sum(len(key) + len(value or b"") for key, value in batch))
        put_raw(batch)

    monkeypatch.setattr(store.local, "put_raw", counting)
    store.install_bins(0, 255, [(key, bytes(100_000)) for key in KEYS])
    store.install([(store_key(changelog_key(2, b"large")), bytes(900_000))])
    assert max(sizes[:-1]) <= 256 * 1024
    assert len(sizes) == 21


def test_a_record_that_cannot_be_understood_is_named(backend):
    local = backend.open(TASK, 2)
    local.put_raw([(MIGRATION_KEY, b"{}")])
    with pytest.raises(CodecError, match="not a store's migration record"):
        reopen(local)
