"""Reads of copies while they are made: refused until the changelog's tail is applied, then exact (R15, I8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module

import pytest

from statemgr.changelog import RestoreProgress, RestoreSettings, begin, catch_up, restore
from statemgr.control.records import Assigned, Done, Layer, Manner, control_key, encode_control
from statemgr.control.view import ControlView
from statemgr.errors import NoSuchCopyError
from statemgr.kafka.ports import TopicSpec
from statemgr.layout import PROGRESS_KEY, changelog_key, store_key
from statemgr.migration import layered
from statemgr.progress import InputProgress, Progress, encode_progress
from statemgr.sidecar.readers import MemoryReaders
from statemgr.sidecar.reads import Read
from statemgr.sidecar.rocks_readers import RocksReaders
from statemgr.sidecar.service import StateService
from statemgr.store import MemoryBackend, RocksBackend, StoreMeta
from statemgr.testing.kafka import FakeKafka
from statemgr.types import TaskId

TOPIC = "app.count.changelog"
TASK = TaskId("count", 0)
EPOCH = 5
KEYS = [b"k%03d" % number for number in range(60)]
SMALL = RestoreSettings(batch_records=7, chunk_bytes=1)
"""Many write batches."""


class World:
    """A task whose owner "b" has said that it is complete; its changelog; a reader of its disk."""

    def __init__(self, backend, readers) -> None:
        self.backend = backend
        self.kafka = FakeKafka()
        self.kafka.admin().create([TopicSpec(TOPIC, 1, {"cleanup.policy": "compact"})], 1, 1)
        self.topic = self.kafka.admin().describe([TOPIC], 1)[TOPIC]
        view = ControlView()
        for offset, record in enumerate((Assigned(*TASK, EPOCH, "b", (), (), Manner(), 1), Done(*TASK, EPOCH, "b"))):
            view.apply(offset, control_key(record), encode_control(record))
        clock = self.kafka.clock
        self.service = StateService(readers, lambda: view, clock, "b", caught_up_s=clock.monotonic_s)
        self.answers: list[Read | None] = []
        self._rows = 0

    def commit(self, epoch: int = EPOCH) -> None:
        """Every key gets a newer value."""
        producer = self.kafka.producer(transactional_id="b", name="b")
        producer.init_transactions(1)
        producer.begin()
        self._rows += 1
        for key in KEYS:
            producer.produce(TOPIC, 0, changelog_key(1, key), b"%d" % self._rows)
        record = Progress(epoch, {"bids": InputProgress(self._rows, self._rows)})
        producer.produce(TOPIC, 0, PROGRESS_KEY, encode_progress(record))
        producer.commit(1)

    def ask(self, *_: object) -> None:
        """One read of all keys; None: refused."""
        try:
            self.answers.append(self.service.get(TASK, 1, KEYS, 10.0))
        except NoSuchCopyError:
            self.answers.append(None)

    def restore(
        self,
        epoch: int = EPOCH,
        on_progress: Callable[[RestoreProgress], None] | None = None,
        *,
        in_use: bool = False,
    ) -> None:
        restored = restore(
            {TASK: epoch},
            self.backend,
            self.kafka,
            self.topic,
            name="reader",
            in_use=in_use,
            settings=SMALL,
            clock=self.kafka.clock,
            on_progress=on_progress or self.ask,
        )
        restored[TASK].store.close()

    def require_refused_until_the_end(self, *, allowed: tuple[bytes, ...] = ()) -> None:
        """Refusals; others give the newest value of all keys, or one of these, which is not confirmed."""
        newest = b"%d" % self._rows
        told = [each and (each.confirmed, set(each.found)) for each in self.answers]
        assert len(told) > 5
        assert told[-1] == (True, {newest})
        assert all(each in (None, told[-1], *((False, {value}) for value in allowed)) for each in told), told
        assert told[0] != told[-1]


@pytest.fixture(params=["memory", "rocks", "filling"])
def world(request, tmp_path, monkeypatch) -> Iterator[World]:
    if request.param == "filling":
        monkeypatch.setattr(begin, "FILL_FROM_RECORDS", 1)
    monkeypatch.setattr(import_module("statemgr.changelog.restore"), "MIN_CHUNK_BYTES", 1)
    monkeypatch.setattr(import_module("statemgr.changelog.catch_up"), "TAIL_BATCH_BYTES", 1)
    backend = MemoryBackend() if request.param == "memory" else RocksBackend(tmp_path)
    readers = MemoryReaders(backend) if isinstance(backend, MemoryBackend) else RocksReaders(tmp_path)
    world = World(backend, readers)
    yield world
    world.service.close()
    backend.close()


def test_a_lost_store_that_is_made_anew_under_the_same_epoch(world):
    world.commit()
    world.restore()
    world.ask()
    world.require_refused_until_the_end()


def test_a_store_whose_restore_was_broken_off(world):
    def break_off(told: RestoreProgress) -> None:
        if told.remaining < len(KEYS) // 2:
            raise InterruptedError

    world.commit()
    with pytest.raises(InterruptedError):
        world.restore(on_progress=break_off)
    world.ask()
    world.restore()
    world.ask()
    world.require_refused_until_the_end()


def test_a_store_made_of_that_of_a_former_epoch_in_place_of_a_lost_one(world):
    world.commit(epoch=4)
    world.restore(epoch=4)
    world.answers.clear()
    world.commit()
    world.restore()
    world.ask()
    world.require_refused_until_the_end(allowed=(b"1",))


def test_a_copy_of_a_store_in_use_which_is_assigned_before_its_tail_is_applied(world):
    world.commit()
    world.commit()
    store = world.backend.open(TASK, EPOCH)
    at = StoreMeta(world.topic.topic_id, len(KEYS), world.kafka.clock.wall_ms(), EPOCH, Progress(4, {}))
    copy = layered.begin(store, [Layer("a", 4)], at, in_use=True)
    world.ask()
    copy.install_bins(0, 255, [(store_key(changelog_key(1, key)), b"2") for key in KEYS[::2]])
    world.ask()
    copy.complete_bins(0, 255)
    world.ask()
    catch_up(
        TASK,
        EPOCH,
        copy,
        world.kafka,
        world.topic,
        name="reader",
        settings=SMALL,
        clock=world.kafka.clock,
        on_progress=world.ask,
    )
    world.ask()
    world.require_refused_until_the_end()


def test_a_copy_of_a_changelog_that_its_owner_writes_on(world):
    """What a key was at its end may be compacted away by the time at which it is read."""
    world.commit()
    world.restore(in_use=True)
    world.ask()
    assert world.answers[-1] is None
    world.commit()
    world.restore()
    world.ask()
    world.require_refused_until_the_end()
