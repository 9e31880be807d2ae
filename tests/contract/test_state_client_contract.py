"""What every client of state managers does: over the network on RocksDB, and directly in memory.

One state manager, of the replica "a", whose stores the tests write as the replica does: they stay open meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from statemgr.clock import SystemClock
from statemgr.control.records import Assigned, Done, Layer, Manner, Released, Tenure, control_key, encode_control
from statemgr.control.view import ControlView
from statemgr.errors import HolderUnavailableError, NoSuchCopyError, StaleRequestError
from statemgr.layout import HOT_KEY, MIGRATION_KEY, changelog_key, store_key, tombstone_key
from statemgr.migration.ports import Address, Found, StateClient
from statemgr.migration.record import ALL_BINS, NO_BINS, MigrationRecord, encode_migration, with_bins
from statemgr.progress import InputProgress, Progress
from statemgr.sidecar.client import GrpcStateClient
from statemgr.sidecar.direct import DirectStateClient
from statemgr.sidecar.readers import MemoryReaders
from statemgr.sidecar.rocks_readers import RocksReaders
from statemgr.sidecar.server import StateServer
from statemgr.sidecar.service import ServiceSettings, StateService
from statemgr.store import MemoryBackend, RocksBackend, Store, StoreMeta
from statemgr.store.base import UNFINISHED_KEY
from statemgr.types import TaskId

TASK = TaskId("count", 3)
PROGRESS = Progress(1, {"bids": InputProgress(5, 9, {"k": (6, 1)})}, {"u/0": 17})
TIMEOUT_S = 10.0
"""Longer than any answer takes, so that a busy machine fails no test."""

BELOW = Layer("z", 0, "elsewhere:1")
LIMITS = ServiceSettings(look_up_bytes=4096, chunk_bytes=4096, filter_step=50)


def meta(offset: int, progress: Progress | None = PROGRESS, epoch: int = 1) -> StoreMeta:
    return StoreMeta("T", offset, 1_000 + offset, epoch, progress)


def key(name: str) -> bytes:
    return store_key(changelog_key(1, name.encode()))


class Holder:
    """The replica "a" with its stores, the control log as its state manager has read it, and a client."""

    def __init__(self, kind: str, root: Path, stack: contextlib.ExitStack) -> None:
        self.view = ControlView()
        self.caught_up_s: float | None = None
        self.backend = RocksBackend(root) if kind == "grpc" else MemoryBackend()
        stack.callback(self.backend.close)
        readers = RocksReaders(root) if kind == "grpc" else MemoryReaders(self.backend)
        clock = SystemClock()
        self.service = StateService(
            readers, lambda: self.view, clock, "a", caught_up_s=lambda: self.caught_up_s, settings=LIMITS
        )
        stack.callback(self.service.close)
        self.client: StateClient = self._client(kind, stack)
        stack.callback(self.client.close)
        self._offset = 0

    def _client(self, kind: str, stack: contextlib.ExitStack) -> StateClient:
        if kind == "direct":
            return DirectStateClient({"a": self.service, "b": self.service})
        server = StateServer(self.service)
        server.start()
        stack.callback(server.stop, 0.0)
        return GrpcStateClient(lambda layer: f"127.0.0.1:{server.port}" if layer.holder in "ab" else "")

    def log(self, record) -> None:
        self.view.apply(self._offset, control_key(record), encode_control(record))
        self._offset += 1

    def assign(self, epoch: int, owner: str, *layers: Layer, waits_for: tuple[Tenure, ...] = ()) -> None:
        self.log(Assigned(*TASK, epoch, owner, waits_for, layers, Manner(), 1))

    def store(self, epoch: int = 1) -> Store:
        return self.backend.open(TASK, epoch)


@pytest.fixture(params=["direct", "grpc"])
def holder(request, tmp_path) -> Iterator[Holder]:
    with contextlib.ExitStack() as stack:
        yield Holder(request.param, tmp_path, stack)


@pytest.fixture
def moved(holder) -> Holder:
    """A holder whose task, under epoch 1, now belongs to "b" under epoch 2."""
    holder.assign(2, "b", Layer("a", 1))
    return holder


def address(epoch: int = 1, target: int = 2, task: TaskId = TASK, name: str = "a") -> Address:
    return Address(task, Layer(name, epoch), target)


def look_up(holder: Holder, keys, at_least: int = -1, where: Address | None = None):
    return holder.client.look_up(where or address(), at_least, keys, TIMEOUT_S).result()


def all_bins(holder: Holder, first: int = 0, last: int = 255, at_least: int = -1):
    chunks, cursor = [], b""
    while cursor is not None:
        chunks.append(holder.client.bins(address(), at_least, first, last, cursor, TIMEOUT_S).result())
        cursor = chunks[-1].next
    return chunks


def incomplete(complete: bytes = NO_BINS) -> tuple[bytes, bytes]:
    return MIGRATION_KEY, encode_migration(MigrationRecord((BELOW,), 7, complete.hex()))


def test_a_complete_copy_is_described_with_its_meta_and_every_bin(moved):
    moved.store().write([(key("x"), b"1"), (key("y"), b"2")], meta(4))
    described = moved.client.describe(address(), 4, TIMEOUT_S).result()
    assert described.meta == meta(4)
    assert (described.complete, described.layers) == (ALL_BINS, ())
    assert described.keys > 0
    assert described.bytes > 0


def test_an_incomplete_copy_is_described_with_its_bins_and_what_it_is_made_of(moved):
    complete = with_bins(NO_BINS, 3, 9)
    moved.store().write([incomplete(complete)], meta(4))
    described = moved.client.describe(address(), -1, TIMEOUT_S).result()
    assert (described.complete, described.layers) == (complete, (BELOW,))


def test_a_store_without_a_batch_is_described_as_such(moved):
    moved.store()
    assert moved.client.describe(address(), -1, TIMEOUT_S).result().meta is None


def test_a_look_up_says_value_or_absent_for_certain_in_a_complete_copy(moved):
    moved.store().write([(key("x"), b"1"), (key("empty"), b"")], meta(4))
    answer = look_up(moved, [key("x"), key("never"), key("empty"), key("x")])
    assert answer.found == (b"1", Found.ABSENT, b"", b"1")
    assert (answer.epoch, answer.offset) == (1, 4)


def test_a_look_up_in_an_incomplete_copy_tells_deleted_from_unknown_and_from_absent(moved):
    complete = with_bins(NO_BINS, key("in a complete bin")[0], key("in a complete bin")[0])
    moved.store().write([incomplete(complete), (key("x"), b"1"), (tombstone_key(key("gone")), b"")], meta(4))
    names = ["x", "gone", "never heard of", "in a complete bin"]
    answer = look_up(moved, [key(name) for name in names])
    assert answer.found == (b"1", Found.DELETED, Found.UNKNOWN, Found.ABSENT)


def test_a_look_up_of_nothing_finds_nothing(moved):
    moved.store().write([], meta(4))
    assert look_up(moved, []).found == ()


def test_a_look_up_s_answer_is_cut_where_it_would_be_too_large_but_has_one_key(moved):
    moved.store().write([(key(f"k{n}"), b"v" * 1500) for n in range(9)] + [(key("big"), b"v" * 9000)], meta(4))
    keys = [key(f"k{n}") for n in range(9)]
    assert look_up(moved, keys).found == (b"v" * 1500,) * 2
    assert look_up(moved, [key("big"), *keys]).found == (b"v" * 9000,)


def test_what_the_owner_has_written_up_to_the_offset_asked_for_is_seen(moved):
    store = moved.store()
    for offset in range(1, 6):
        store.write([(key("x"), b"%d" % offset)], meta(offset))
        answer = look_up(moved, [key("x")], at_least=offset)
        assert (answer.found, answer.offset) == ((b"%d" % offset,), offset)


def test_a_copy_that_has_not_come_to_the_offset_is_unavailable_for_now(moved):
    store = moved.store()
    store.write([], meta(4))
    with pytest.raises(HolderUnavailableError, match=r"count/3@1 of a has come to offset 4, not yet to 5"):
        moved.client.describe(address(), 5, TIMEOUT_S).result()
    store.write([], meta(5))
    assert moved.client.describe(address(), 5, TIMEOUT_S).result().meta == meta(5)


def test_bins_come_whole_in_order_and_in_chunks(moved):
    entries = {key(f"k{n}"): b"v" * 300 for n in range(100)}
    moved.store().write(entries.items(), meta(4))
    chunks = all_bins(moved)
    assert [entry for chunk in chunks for entry in chunk.entries] == sorted(entries.items())
    assert len(chunks) > 5
    assert all(sum(len(k) + len(v) for k, v in chunk.entries) <= LIMITS.chunk_bytes for chunk in chunks)
    assert {(chunk.epoch, chunk.offset, chunk.complete) for chunk in chunks} == {(1, 4, True)}


def test_only_the_bins_asked_for_come(moved):
    entries = {key(f"k{n}"): b"v" for n in range(300)}
    moved.store().write(entries.items(), meta(4))
    got = [entry for chunk in all_bins(moved, 100, 130) for entry in chunk.entries]
    assert got == sorted((k, v) for k, v in entries.items() if 100 <= k[0] <= 130)
    assert got


def test_bins_show_explicit_tombstones_as_deletions_and_never_the_store_s_own_records(moved):
    complete = with_bins(NO_BINS, 0, 99)
    moved.store().write([incomplete(complete), (HOT_KEY, b"\x90"), (tombstone_key(key("gone")), b"")], meta(4))
    (chunk,) = all_bins(moved)
    assert chunk.entries == ((key("gone"), None),)
    assert not chunk.complete
    assert all_bins(moved, 0, 99)[0].complete
    assert not all_bins(moved, 99, 100)[0].complete


def test_an_entry_larger_than_a_chunk_comes_alone(moved):
    entries = {key(f"k{n}"): b"v" * 9000 for n in range(3)}
    moved.store().write(entries.items(), meta(4))
    assert [chunk.entries for chunk in all_bins(moved)] == [(entry,) for entry in sorted(entries.items())]


def test_empty_bins_are_one_empty_chunk(moved):
    moved.store().write([], meta(4))
    (chunk,) = all_bins(moved)
    assert (chunk.entries, chunk.complete) == ((), True)


def test_the_hot_set_comes_hottest_first_in_chunks(moved):
    names = [f"k{n}" for n in range(40)]
    hot = [key(name) for name in reversed(names)]
    moved.store().write([*((key(name), b"v" * 300) for name in names), (HOT_KEY, msgspec.msgpack.encode(hot))], meta(4))
    got, cursor, chunks = [], b"", 0
    while cursor is not None:
        chunk = moved.client.hot(address(), -1, cursor, TIMEOUT_S).result()
        got += [k for k, _ in chunk.entries]
        cursor, chunks = chunk.next, chunks + 1
    assert got == hot
    assert chunks > 2


def test_the_hot_set_leaves_out_what_this_copy_does_not_know(moved):
    hot = [key("far"), key("gone"), key("x")]
    entries = [
        incomplete(),
        (key("x"), b"1"),
        (tombstone_key(key("gone")), b""),
        (HOT_KEY, msgspec.msgpack.encode(hot)),
    ]
    moved.store().write(entries, meta(4))
    chunk = moved.client.hot(address(), -1, b"", TIMEOUT_S).result()
    assert chunk.entries == ((key("gone"), None), (key("x"), b"1"))
    assert (chunk.next, chunk.complete) == (None, False)


def test_a_copy_without_a_hot_set_has_an_empty_one(moved):
    moved.store().write([(key("x"), b"1")], meta(4))
    assert moved.client.hot(address(), -1, b"", TIMEOUT_S).result().entries == ()


def test_a_filter_knows_every_key_with_a_value_and_few_others(moved):
    keys = [key(f"k{n}") for n in range(500)]
    moved.store().write([*((k, b"v") for k in keys), (tombstone_key(key("gone")), b"")], meta(4))
    known = moved.client.filter(address(), 4, TIMEOUT_S).result()
    assert (known.keys, known.epoch, known.offset) == (500, 1, 4)
    assert known.may_have(keys).all()
    assert known.may_have([key(f"other{n}") for n in range(1000)]).sum() < 50


def test_an_owner_that_the_log_does_not_name_any_more_is_refused_for_good(moved):
    moved.store().write([], meta(4))
    moved.assign(3, "c", Layer("b", 2), Layer("a", 1))
    with pytest.raises(StaleRequestError, match=r"epoch 2 of count/3 is over: c owns it under epoch 3") as refused:
        look_up(moved, [key("x")])
    assert not refused.value.later
    assert look_up(moved, [key("x")], where=address(target=3)).found == (Found.ABSENT,)


def test_an_owner_that_the_log_does_not_name_yet_is_told_to_ask_later(holder):
    holder.store().write([], meta(4))
    with pytest.raises(StaleRequestError, match=r"a has not read of epoch 2 of count/3 yet, only of 0") as refused:
        look_up(holder, [key("x")])
    assert refused.value.later
    holder.assign(1, "a")
    with pytest.raises(StaleRequestError, match="not read of epoch 3") as refused:
        look_up(holder, [key("x")], where=address(target=3))
    assert refused.value.later


def test_the_next_owner_may_copy_from_the_newest_before_it_is_assigned(holder):
    holder.assign(1, "a")
    holder.store().write([(key("x"), b"1")], meta(4))
    assert look_up(holder, [key("x")], where=address(1, target=2)).found == (b"1",)


def test_a_copy_that_is_not_listed_in_the_assignment_is_refused(holder):
    for epoch in (1, 2):
        holder.store(epoch).write([], meta(4))
    holder.assign(3, "b", Layer("a", 2))
    with pytest.raises(StaleRequestError, match=r"copy count/3@1 of a is no source of epoch 3") as refused:
        look_up(holder, [key("x")], where=address(1, target=3))
    assert not refused.value.later


def test_a_copy_that_is_not_there_is_named(moved):
    with pytest.raises(NoSuchCopyError, match="count/3@1"):
        moved.client.describe(address(), -1, TIMEOUT_S).result()


def test_a_copy_that_was_deleted_is_gone_for_those_who_read_it_before(moved):
    store = moved.store()
    store.write([(key("x"), b"1")], meta(4))
    assert look_up(moved, [key("x")]).found == (b"1",)
    store.close()
    moved.backend.destroy(TASK, 1)
    with pytest.raises(NoSuchCopyError):
        moved.client.describe(address(), -1, TIMEOUT_S).result()


def test_a_store_made_anew_under_the_same_name_is_read_anew(moved):
    store = moved.store()
    store.write([(key("x"), b"1")], meta(4))
    assert look_up(moved, [key("x")]).found == (b"1",)
    store.close()
    moved.backend.destroy(TASK, 1)
    moved.store().write([(key("x"), b"2")], meta(9))
    with contextlib.suppress(NoSuchCopyError):
        look_up(moved, [key("x")], at_least=9)
    assert look_up(moved, [key("x")], at_least=9).found == (b"2",)


def test_a_holder_that_is_not_known_is_unavailable(moved):
    with pytest.raises(HolderUnavailableError):
        look_up(moved, [key("x")], where=address(name="q"))


def test_a_request_that_reaches_another_holder_is_not_answered(moved):
    with pytest.raises(HolderUnavailableError, match=r"was asked of the state manager of a"):
        look_up(moved, [key("x")], where=address(name="b"))


def test_after_close_everything_fails(moved):
    moved.store().write([], meta(4))
    moved.client.close()
    with pytest.raises(HolderUnavailableError):
        look_up(moved, [key("x")])


def test_a_read_of_a_live_task_is_confirmed_within_the_lease(holder):
    holder.assign(1, "a")
    holder.store().write([(key("x"), b"1")], meta(4))
    read = holder.client.get("a", TASK, 1, [b"x", b"never"], TIMEOUT_S).result()
    assert (read.found, read.epoch, read.offset) == ((b"1", Found.ABSENT), 1, 4)
    assert (read.confirmed, read.owner) == (False, "a")
    holder.caught_up_s = SystemClock().monotonic_s()
    assert holder.client.get("a", TASK, 1, [b"x"], TIMEOUT_S).result().confirmed


@pytest.mark.parametrize("progress", [None, Progress(1, {}), Progress(2, {})])
@pytest.mark.parametrize("done", [None, 1, 2])
def test_a_read_is_flagged_until_the_owner_has_committed_or_says_that_it_is_complete(holder, progress, done):
    """Its store may be empty, or half restored, when the log says that it may begin."""
    holder.assign(2, "a", Layer("z", 1))
    holder.caught_up_s = SystemClock().monotonic_s()
    if done is not None:
        holder.log(Done(*TASK, done, "a"))
    store = holder.store(2)
    if progress is not None:
        store.write([incomplete()], meta(4, progress, 2))
    asked = holder.client.get("a", TASK, 1, [b"x"], TIMEOUT_S)
    if progress is None:
        with pytest.raises(NoSuchCopyError, match="not whole yet; its owner is a"):
            asked.result()
    else:
        assert asked.result().confirmed == (done == 2 or (progress is not None and progress.epoch == 2))


@pytest.mark.parametrize("owner", ["a", "z"])
@pytest.mark.parametrize("assigned", [None, 1, 2, 3])
@pytest.mark.parametrize("at", [meta(-1, None, 2), meta(4, Progress(1, {}), 2), meta(4, Progress(2, {}), 2)])
def test_a_copy_that_is_not_whole_is_not_read_whatever_the_log_says(holder, owner, assigned, at):
    """Half restored, or copied from a store in use: what is in it was never the state at its X."""
    if assigned is not None:
        holder.assign(assigned, owner)
        holder.log(Done(*TASK, assigned, owner))
    holder.caught_up_s = SystemClock().monotonic_s()
    store = holder.store(2)
    store.write([(key("x"), b"1"), (UNFINISHED_KEY, b"")], at)
    named = owner if assigned is not None else "unknown"
    with pytest.raises(NoSuchCopyError, match=f"not whole yet; its owner is {named}"):
        holder.client.get("a", TASK, 1, [b"x"], TIMEOUT_S).result()
    store.write([(UNFINISHED_KEY, None)], meta(5, Progress(2, {}), 2))
    assert holder.client.get("a", TASK, 1, [b"x"], TIMEOUT_S).result().found == (b"1",)


def test_an_empty_copy_of_an_owner_that_was_complete_is_not_read(holder):
    """Its store was lost, and is made anew under the same epoch."""
    holder.assign(2, "a")
    holder.log(Done(*TASK, 2, "a"))
    holder.caught_up_s = SystemClock().monotonic_s()
    holder.store(2)
    with pytest.raises(NoSuchCopyError, match="not whole yet; its owner is a"):
        holder.client.get("a", TASK, 1, [b"x"], TIMEOUT_S).result()


def test_a_copy_of_an_older_store_is_not_confirmed_before_the_owner_has_written_to_it(holder):
    """The store of this epoch was lost, and the one of the epoch before is taken in its place."""
    holder.assign(2, "a")
    holder.log(Done(*TASK, 2, "a"))
    holder.caught_up_s = SystemClock().monotonic_s()
    store = holder.store(2)
    store.write([(key("x"), b"1")], meta(4))
    assert not holder.client.get("a", TASK, 1, [b"x"], TIMEOUT_S).result().confirmed
    store.write([], meta(9, epoch=2))
    assert holder.client.get("a", TASK, 1, [b"x"], TIMEOUT_S).result().confirmed


def test_a_read_of_a_task_that_was_released_or_moved_is_flagged_with_the_owner_s_name(holder):
    holder.assign(1, "a")
    holder.store().write([(key("x"), b"1")], meta(4))
    holder.caught_up_s = SystemClock().monotonic_s()
    holder.log(Released(*TASK, 1, "a", True, 4, PROGRESS))
    assert not holder.client.get("a", TASK, 1, [b"x"], TIMEOUT_S).result().confirmed
    holder.assign(2, "b", Layer("a", 1))
    read = holder.client.get("a", TASK, 1, [b"x"], TIMEOUT_S).result()
    assert (read.found, read.confirmed, read.owner) == ((b"1",), False, "b")


def test_a_read_while_a_former_owner_may_be_at_work_is_flagged(holder):
    holder.assign(2, "a", Layer("z", 1), waits_for=(Tenure("z", 1),))
    holder.store(2).write([incomplete()], meta(4, Progress(2, {})))
    holder.caught_up_s = SystemClock().monotonic_s()
    read = holder.client.get("a", TASK, 1, [b"x"], TIMEOUT_S).result()
    assert (read.found, read.confirmed) == ((Found.UNKNOWN,), False)
    holder.log(Released(*TASK, 1, "z", True, 4, PROGRESS))
    assert holder.client.get("a", TASK, 1, [b"x"], TIMEOUT_S).result().confirmed


def test_a_read_of_a_task_without_a_copy_names_the_owner(moved):
    with pytest.raises(NoSuchCopyError, match=r"a has no copy of count/3; its owner is b"):
        moved.client.get("a", TASK, 1, [b"x"], TIMEOUT_S).result()


def test_a_copy_that_nobody_asks_for_any_more_keeps_no_state_manager(moved):
    moved.store().write([(key("x"), b"1")], meta(4))
    begin_s = SystemClock().monotonic_s()
    assert moved.service.needed(asked_since_s=begin_s) == []
    look_up(moved, [key("x")])
    assert moved.service.needed(asked_since_s=begin_s) == [(TASK, 1)]
    assert moved.service.needed(asked_since_s=SystemClock().monotonic_s()) == []
    assert moved.service.needed() == [(TASK, 1)]


def test_a_copy_is_deleted_once_the_owner_is_complete_and_not_before(moved):
    store = moved.store()
    store.write([(key("x"), b"1")], meta(4))
    look_up(moved, [key("x")])
    assert moved.service.tidy() == []
    assert moved.service.needed() == [(TASK, 1)]
    store.close()
    moved.log(Done(*TASK, 2, "b"))
    assert moved.service.needed() == []
    assert moved.service.tidy() == [(TASK, 1)]
    assert moved.backend.existing(TASK) == []
