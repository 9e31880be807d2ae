"""Any history of writes, moves, lost holders and restarts ends in the state that the changelog has (I2, I4, I5, I6).

Everything but the network is real: changelog, tail, openings, stores, state managers, jobs, scratch bases.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemgr.changelog import catch_up, restore
from statemgr.control.records import Layer, Manner, Released, Strategy
from statemgr.decisions import LogFacts
from statemgr.errors import HolderUnavailableError, NoSuchCopyError, StaleRequestError
from statemgr.kafka.ports import TopicSpec
from statemgr.layout import PROGRESS_KEY
from statemgr.migration.job import MigrationJob
from statemgr.migration.layered import LayeredStore, begin, record_of, reopen
from statemgr.migration.opening import (
    AskAgain,
    LayerFacts,
    Layers,
    NoAnswer,
    OpeningFacts,
    OwnStore,
    Reopen,
    decide_opening,
)
from statemgr.migration.ports import Address
from statemgr.migration.scratch import build_scratch
from statemgr.progress import InputProgress, Progress, encode_progress
from statemgr.store import StoreMeta
from statemgr.testing.kafka import FakeKafka
from statemgr.types import TopicPartition
from tests.unit.statemgr.migration.world import TASK, World, at_once, content, name_of

TOPIC = "app.count.changelog"
REPLICAS = ("a", "b", "c", "d")
KEYS = [name_of(number) for number in range(12)]

CHANGES = st.lists(st.tuples(st.sampled_from(KEYS), st.none() | st.binary(min_size=1, max_size=3)), max_size=6)
STEP = st.one_of(
    st.tuples(st.just("write"), CHANGES),
    st.tuples(st.just("read"), st.lists(st.sampled_from(KEYS), max_size=6)),
    st.tuples(st.just("ask"), st.lists(st.sampled_from(KEYS), min_size=1, max_size=6)),
    st.tuples(st.just("poll"), st.integers(1, 10)),
    st.tuples(st.just("poll"), st.integers(20, 200)),
    st.tuples(st.just("move"), st.sampled_from(REPLICAS)),
    st.tuples(st.just("move"), st.sampled_from(REPLICAS)),
    st.tuples(st.just("crash"), st.tuples(st.sampled_from(REPLICAS), CHANGES)),
    st.tuples(st.just("restart"), CHANGES),
    st.tuples(st.just("cut"), st.sampled_from(REPLICAS)),
    st.tuples(st.just("heal"), st.sampled_from(REPLICAS)),
    st.tuples(st.just("wipe"), st.sampled_from(REPLICAS)),
    st.tuples(st.just("compact"), st.none()),
)


class History(World):
    """A task that changes hands."""

    def __init__(self, manner: Manner, *, delay_s: float, chunk_bytes: int) -> None:
        super().__init__(chunk_bytes=chunk_bytes)
        self.kafka = FakeKafka(self.clock)
        self.kafka.admin().create([TopicSpec(TOPIC, 1, {"cleanup.policy": "compact"})], 1, 1)
        self.topic = self.kafka.admin().describe([TOPIC], 1)[TOPIC]
        self.writer = self.kafka.producer(transactional_id="owner", name="owner")
        self.writer.init_transactions(1)
        self.network.delay_s = delay_s
        self.manner = manner
        self.state: dict[bytes, bytes] = {}
        self.epoch, self.owner, self.layers = 0, "", ()
        self.job: MigrationJob | None = None
        self.released: Released | None = None
        self.opened: list[str] = []
        self.take_over("a", None)

    def progress(self) -> Progress:
        return Progress(self.epoch, {"bids": InputProgress(self.epoch, self.epoch)})

    def write(self, changes) -> None:
        self.store.write(changes, self.commit(changes))

    def commit(self, changes) -> StoreMeta:
        """A transaction of the owner; what it has to write to its store then."""
        offsets = []
        self.writer.begin()
        for key, value in changes:
            self.writer.produce(TOPIC, 0, key[1:], value)
        value = encode_progress(self.progress())
        self.writer.produce(TOPIC, 0, PROGRESS_KEY, value, on_delivery=offsets.append)
        self.writer.commit(1)
        for key, value in changes:
            self.state.pop(key, None)
            if value is not None:
                self.state[key] = value
        return StoreMeta(self.topic.topic_id, offsets[0], self.clock.wall_ms(), self.epoch, self.progress())

    def read(self, keys) -> None:
        if isinstance(self.store, LayeredStore):
            missing = set(self.store.unresolved(keys))
            self.job.request(missing)
            for _ in range(200):
                if not missing:
                    break
                missing -= self.poll(self.job, 0.05, budget_s=0)
            assert not missing, self.job.progress()
        assert self.store.get_many(keys) == [self.state.get(key) for key in keys]

    def ask(self, keys) -> None:
        """Rows wait for these keys; others go on meanwhile."""
        if self.job is not None:
            self.job.request(self.job.store.unresolved(keys))

    def step(self, times: int) -> None:
        for _ in range(times):
            if self.job is not None and not self.job.complete:
                self.poll(self.job, 0.001)

    def move(self, target: str) -> None:
        """Planned: the owner says where it ends."""
        meta = self.commit([])
        self.store.write([], meta)
        released = Released(*TASK, self.epoch, self.owner, started=True, offset=meta.offset, progress=meta.progress)
        self.take_over(target, released)

    def crash(self, target_and_changes) -> None:
        """Unplanned: the owner's last commit is not in its store."""
        target, changes = target_and_changes
        self.commit(changes)
        self.take_over(target, None)

    def restart(self, changes) -> None:
        self.commit(changes)
        self.close()
        self.open()

    def cut(self, replica: str) -> None:
        self.network.cut.add(replica)

    def heal(self, replica: str) -> None:
        self.network.cut.discard(replica)

    def wipe(self, replica: str) -> None:
        """The replica loses its disk, except for what is open."""
        for epoch in self.disk(replica).existing(TASK):
            if (replica, epoch) != (self.owner, self.epoch):
                self.disk(replica).destroy(TASK, epoch)

    def compact(self, _) -> None:
        self.kafka.compact(TOPIC)

    def take_over(self, owner: str, released: Released | None) -> None:
        if self.epoch:
            complete = self.job is None or self.job.complete
            self.layers = (Layer(self.owner, self.epoch), *(() if complete else self.layers))[:3]
            self.close()
        self.epoch, self.owner = self.epoch + 1, owner
        self.released = released or self.released  # the newest one stays in the control log
        self.disk(owner)
        self.assign(owner, self.epoch, self.layers)
        self.open()

    def close(self) -> None:
        if self.job is not None:
            self.job.close()
        self.store.close()

    def open(self) -> None:
        decision = decide_opening(self.facts(patient=True))
        if isinstance(decision, AskAgain):
            decision = decide_opening(self.facts(patient=False))
        self.opened.append(type(decision).__name__)
        backend, sources = self.disk(self.owner), ()
        if isinstance(decision, Layers):
            backend.destroy(TASK, self.epoch)
            layers = [source.layer for source in decision.sources]
            self.store = begin(backend.open(TASK, self.epoch), layers, decision.meta)
            sources = decision.sources
            if decision.tail:
                self.catch_up()
        elif isinstance(decision, Reopen) and decision.record is not None:
            self.store = reopen(backend.open(TASK, self.epoch))
            sources = decision.sources
            self.catch_up()
        else:
            with_defaults = {"name": "reader", "clock": self.clock, "pause": self.clock.advance}
            self.store = restore({TASK: self.epoch}, backend, self.kafka, self.topic, **with_defaults)[TASK].store
        self.job = self.job_over(sources) if isinstance(self.store, LayeredStore) else None

    def catch_up(self) -> None:
        with_defaults = {"name": "reader", "clock": self.clock, "pause": self.clock.advance}
        catch_up(TASK, self.epoch, self.store, self.kafka, self.topic, **with_defaults)

    def job_over(self, sources) -> MigrationJob:
        epoch, owner, cut = self.epoch, self.owner, self.store.record.cut
        return MigrationJob(
            TASK,
            epoch,
            self.store,
            sources,
            self.network,
            self.clock,
            self.manner,
            at_once,
            lambda: build_scratch(
                TASK,
                epoch,
                cut,
                self.disk(owner),
                self.kafka,
                self.topic,
                name="scratch",
                clock=self.clock,
                pause=self.clock.advance,
            ),
        )

    def facts(self, *, patient: bool) -> OpeningFacts:
        log = self.kafka.cluster.log(TopicPartition(TOPIC, 0))
        return OpeningFacts(
            epoch=self.epoch,
            log=LogFacts(self.topic.topic_id, log.bounds, confirmed=True),
            now_ms=self.clock.wall_ms(),
            manner=self.manner,
            own=[self.own(epoch) for epoch in self.disk(self.owner).existing(TASK)],
            layers=[LayerFacts(layer, self.said(layer, patient)) for layer in self.layers],
            released=self.released,
            patient=patient,
        )

    def own(self, epoch: int) -> OwnStore:
        store = self.disk(self.owner).open(TASK, epoch)
        try:
            return OwnStore(epoch, store.meta(), record_of(store))
        finally:
            store.close()

    def said(self, layer: Layer, patient: bool):
        """A first look asks nobody: a release may say enough."""
        if patient:
            return NoAnswer.NOT_ASKED
        pending = self.network.describe(Address(TASK, layer, self.epoch), -1, 1.0)
        self.clock.advance(self.network.delay_s)
        try:
            return pending.result() if pending.done() else NoAnswer.LOST
        except (HolderUnavailableError, NoSuchCopyError):
            return NoAnswer.LOST
        except StaleRequestError:
            return NoAnswer.LATER


@pytest.mark.slow
@given(
    steps=st.lists(STEP, max_size=30),
    read=st.booleans(),
    strategy=st.sampled_from([Strategy.HYBRID, Strategy.LAZY, Strategy.BLOCK]),
    bins=st.sampled_from([256, 16, 1]),
    delay_s=st.sampled_from([0.0, 0.002]),
    chunk_bytes=st.sampled_from([1 << 18, 40]),
)
@settings(max_examples=60, deadline=None)
def test_any_history_ends_in_the_state_that_the_changelog_has(steps, read, strategy, bins, delay_s, chunk_bytes):
    history = History(Manner(strategy=strategy, bins=bins), delay_s=delay_s, chunk_bytes=chunk_bytes)
    history.write([(key, b"first") for key in KEYS])
    for name, argument in steps:
        getattr(history, "step" if name == "poll" else name)(argument)
    if read:
        history.read(KEYS)
    if history.job is not None:
        history.job.hurry()
        history.finish(history.job)
    assert content(history.store) == history.state
    if isinstance(history.store, LayeredStore):
        assert content(history.store.local) == history.state


def test_three_owners_before_the_first_bin_is_complete_and_a_lost_one():
    history = History(Manner(strategy=Strategy.LAZY), delay_s=0.002, chunk_bytes=1 << 18)
    history.write([(key, b"a") for key in KEYS])
    for owner, number in (("b", 0), ("c", 1), ("d", 2)):
        history.move(owner)
        history.write([(KEYS[number], owner.encode()), (KEYS[number + 4], None)])
    assert history.opened[1:] == ["Layers"] * 3
    history.read(KEYS[:3])
    history.wipe("b")
    history.read(KEYS)
    history.job.hurry()
    history.finish(history.job)
    assert content(history.store) == history.state


def test_a_task_that_comes_back_uses_its_own_old_store():
    history = History(Manner(), delay_s=0.0, chunk_bytes=1 << 18)
    history.write([(key, b"a") for key in KEYS])
    history.move("b")
    history.finish(history.job)
    history.write([(KEYS[0], None)])
    history.move("a")
    assert history.opened[-1] == "OwnBase"
    assert history.job is None
    history.read(KEYS)
