"""A task's state on its way: look-ups, hot set, bins, lost holders, restarts (R7, R8, R10, R21)."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from statemgr.control.records import Layer, Manner, Strategy
from statemgr.errors import HolderUnavailableError, NoSuchCopyError, RestoreStalledError, StaleRequestError
from statemgr.layout import HOT_KEY
from statemgr.migration.layered import reopen
from statemgr.migration.limits import MigrationLimits
from statemgr.migration.ports import Chunk
from statemgr.migration.record import ALL_BINS, NO_BINS
from statemgr.migration.sources import UsableLayer
from statemgr.sidecar.key_filter import KeyFilter
from tests.unit.statemgr.migration.world import TASK, Later, World, content, meta, name_of

KEYS = [name_of(number) for number in range(300)]
A, B, C = KEYS[:3]
STATE = {key: b"%d" % number for number, key in enumerate(KEYS)}
LAZY = Manner(strategy=Strategy.LAZY)
HYBRID = Manner(strategy=Strategy.HYBRID)
BLOCK = Manner(strategy=Strategy.BLOCK)


@pytest.fixture
def world():
    return World()


def moved(world, state=STATE):
    """A task of one complete layer at holder a, now b's."""
    layers = (world.holder("a", 1, state),)
    return world.over("b", 2, layers), layers


def test_requested_keys_are_resolved_by_one_look_up(world):
    store, layers = moved(world)
    job = world.job(store, layers)
    absent = name_of(10_000)
    assert job.store.unresolved([A, absent, B]) == [A, absent, B]
    job.request([A, absent, B])
    assert world.poll(job) == {A, absent, B}
    assert store.get_many([A, absent, B]) == [b"0", None, b"1"]
    assert world.network.calls == [("look_up", "a", 3)]
    assert world.poll(job) == set()
    progress = job.progress()
    assert (progress.look_ups, progress.keys_fetched, progress.keys_asked, progress.local_hits) == (1, 3, 3, 0)


def test_lazy_fetches_no_bins_before_it_must_hurry(world):
    store, layers = moved(world)
    job = world.job(store, layers)
    for _ in range(5):
        world.poll(job, 1)
    assert world.network.calls == []
    assert job.progress().phase == "on demand"
    job.hurry()
    world.finish(job)
    assert content(store) == STATE


@pytest.mark.parametrize("manner", [BLOCK, HYBRID, Manner(strategy=Strategy.PRECOPY), Manner(HYBRID.strategy, bins=4)])
def test_other_strategies_fetch_all_bins_by_themselves(world, manner):
    store, layers = moved(world)
    job = world.job(store, layers, manner)
    world.finish(job)
    assert content(store) == STATE
    progress = job.progress()
    assert (progress.phase, progress.bins_done, progress.entries) == ("complete", 256, 300)
    assert job.stalled is None


def test_local_changes_win_over_whatever_arrives(world):
    store, layers = moved(world)
    job = world.job(store, layers, BLOCK)
    store.write([(A, b"new"), (B, None)], meta(11, 2))
    job.request([A, B, C])
    assert world.poll(job, budget_s=0) == {A, B, C}
    store.write([(C, None)], meta(12, 2))
    world.finish(job)
    assert content(store) == {**{key: STATE[key] for key in KEYS[3:]}, A: b"new"}


def test_a_request_for_a_key_whose_bin_has_come_meanwhile_is_answered(world):
    store, layers = moved(world)
    job = world.job(store, layers, BLOCK)
    world.poll(job)
    store.complete_bins(0, 254)
    keys = [key for key in KEYS if key[0] != 255]
    job.request(keys)
    assert world.poll(job, budget_s=0) >= set(keys)


def test_keys_that_wait_are_resolved_by_their_bin(world):
    """The look-up is lost; the bin is not, and tells absent keys as well."""
    store, layers = moved(world)
    absent = name_of(10_000)
    world.network.delay_s = 100
    job = world.job(store, layers, BLOCK)
    job.request([A, absent])
    world.network.delay_s = 0
    resolved = set()
    while not job.complete:
        resolved |= world.poll(job)
    assert resolved == {A, absent}


def test_look_ups_one_by_one_without_look_ahead(world):
    store, layers = moved(world)
    job = world.job(store, layers, Manner(strategy=Strategy.LAZY, look_ahead=False))
    job.request(KEYS[:100])
    resolved = set()
    while len(resolved) < 100:
        resolved |= world.poll(job)
    assert {size for _, _, size in world.network.calls} == {1}
    assert world.network.count("look_up") == 100


def test_a_short_answer_is_asked_on(world):
    world = World(look_up_bytes=200)
    store, layers = moved(world)
    job = world.job(store, layers)
    job.request(KEYS)
    assert world.poll(job) == set(KEYS)
    assert world.network.count("look_up") > 10


MERGED = {key: value for key, value in STATE.items() if key != B} | {A: b"b", C: b"c", KEYS[9]: b"again"}
"""What :func:`three_layers` add up to."""


def three_layers(world):
    lowest = world.holder("a", 1, STATE, offset=10)
    first = world.over("b", 2, (lowest,), offset=10)
    first.write([(A, b"b"), (B, None), (KEYS[9], None)], meta(20, 2))
    first.close()
    second = world.over("c", 3, (Layer("b", 2), lowest), offset=20)
    second.write([(C, b"c"), (KEYS[9], b"again")], meta(30, 3))
    second.close()
    return Layer("c", 3), Layer("b", 2), lowest


class TestLayers:
    """Three owners before the first bin was complete."""

    @pytest.fixture
    def layers(self, world):
        return three_layers(world)

    def test_look_ups_go_down_until_somebody_knows(self, world, layers):
        store = world.over("d", 4, layers, offset=30)
        job = world.job(store, layers, epoch=4, offset=-1)
        asked = [A, B, C, KEYS[9], KEYS[5], name_of(10_000)]
        job.request(asked)
        assert world.poll(job) == set(asked)
        assert store.get_many(asked) == [b"b", None, b"c", b"again", b"5", None]

    @pytest.mark.parametrize("bins", [256, 8, 1])
    @pytest.mark.parametrize("chunk_bytes", [1 << 18, 100])
    def test_bins_take_every_layer_newest_first(self, bins, chunk_bytes):
        world = World(chunk_bytes=chunk_bytes)
        layers = three_layers(world)
        store = world.over("d", 4, layers, offset=30)
        job = world.job(store, layers, Manner(strategy=Strategy.BLOCK, bins=bins), epoch=4, offset=-1)
        world.finish(job)
        assert content(store) == MERGED

    def test_a_layer_that_is_complete_for_a_bin_hides_the_deeper_ones(self, world):
        """Its tombstones for the bin are gone, so the deeper value must not come back."""
        lowest = world.holder("a", 1, STATE)
        middle = world.over("b", 2, (lowest,))
        middle.install_bins(0, 255, [(key, value) for key, value in STATE.items() if key[0] == A[0]])
        middle.write([(A, None)], meta(20, 2))
        middle.complete_bins(A[0], A[0])
        middle.close()
        layers = (Layer("b", 2), lowest)
        store = world.over("c", 3, layers, offset=20)
        job = world.job(store, layers, Manner(strategy=Strategy.BLOCK, bins=1), epoch=3, offset=-1)
        job.request([A])
        world.poll(job, budget_s=0)
        assert store.get_many([A]) == [None]
        world.finish(job)
        assert content(store) == {key: value for key, value in STATE.items() if key != A}

    def test_a_lost_layer_is_never_skipped_for_a_deeper_one(self, world, layers):
        world.disks["b"].destroy(TASK, 2)
        store = world.over("d", 4, layers, offset=30)
        ready = []
        slow = lambda work: Later(work, lambda: bool(ready))  # noqa: E731
        job = world.job(store, layers, epoch=4, offset=-1, scratch=world.scratch_of(MERGED, 4), spawn=slow)
        job.request([A, B, C, KEYS[5]])
        assert set().union(*(world.poll(job, 0.3) for _ in range(5))) == {C}
        ready.append(True)
        assert world.poll(job) == {A, B, KEYS[5]}
        assert store.get_many([A, B, C, KEYS[5]]) == [b"b", None, b"c", b"5"]
        assert "a" not in {holder for _, holder, _ in world.network.calls}
        job.hurry()
        world.finish(job)
        assert content(store) == MERGED

    def test_the_same_after_a_restart_between_any_two_polls(self, world, layers):
        store = world.over("d", 4, layers, offset=30)
        world.network.delay_s = 0.001
        for number in range(2000):
            job = world.job(store, layers, BLOCK, epoch=4, offset=-1)
            job.request([KEYS[number % 300]])
            for _ in range(3 + number % 7):
                world.poll(job, 0.001)
            job.close()
            store.close()
            store = reopen(world.disk("d").open(TASK, 4))
            if job.complete:
                break
        assert content(store) == MERGED


class TestTrouble:
    """Holders that do not answer, refuse, or answer something else."""

    def test_a_silent_holder_is_asked_again_and_answers(self, world):
        store, layers = moved(world)
        job = world.job(store, layers)
        world.network.cut.add("a")
        job.request([A])
        world.network.cut.clear()
        assert world.poll(job) == {A}

    def test_after_seconds_without_an_answer_a_scratch_base_answers(self, world):
        store, layers = moved(world)
        world.network.cut.add("a")
        job = world.job(store, layers, scratch=world.scratch_of(STATE), limits=MigrationLimits())
        job.request([A, name_of(10_000)])
        resolved = set()
        for _ in range(10):
            resolved |= world.poll(job, 0.1)
        assert world.built == 0, "a holder that is only slow needs no scratch base"
        for _ in range(40):
            resolved |= world.poll(job, 0.1)
        assert resolved == {A, name_of(10_000)}
        assert world.built == 1
        job.hurry()
        world.finish(job)
        assert content(store) == STATE
        assert world.built == 1

    def test_a_holder_that_comes_back_is_used_while_the_scratch_base_is_made(self, world):
        store, layers = moved(world)
        world.network.cut.add("a")
        never = lambda work: Later(work, lambda: False)  # noqa: E731
        job = world.job(store, layers, BLOCK, scratch=world.scratch_of(STATE), spawn=never)
        job.request([A])
        for _ in range(10):
            assert world.poll(job, 0.1) == set()
        assert job.progress().phase == "making a scratch base from the changelog"
        world.network.cut.clear()
        resolved = set()
        while not job.complete:
            resolved |= world.poll(job, 0.1)
        assert resolved == {A}
        assert world.built == 0

    def test_without_any_source_everything_comes_from_the_scratch_base(self, world):
        store = world.over("b", 2, (Layer("a", 1),))
        job = world.job(store, (), BLOCK, scratch=world.scratch_of(STATE))
        job.request([A])
        world.finish(job)
        assert content(store) == STATE
        assert world.network.calls == []

    def test_a_lost_copy_in_the_middle_of_a_bin_is_made_up_for(self):
        world = World(chunk_bytes=60)
        store, layers = moved(world)
        job = world.job(store, layers, Manner(strategy=Strategy.BLOCK, bins=1), scratch=world.scratch_of(STATE))
        world.network.delay_s = 0.001
        for _ in range(20):
            world.poll(job, 0.001)
        assert 0 < len(content(store)) < 300
        world.services.pop("a")
        world.finish(job)
        assert content(store) == STATE

    def test_an_answer_that_never_comes_is_given_up_by_our_own_deadline(self, world):
        store, layers = moved(world)
        world.network.delay_s = 1e9
        job = world.job(store, layers, scratch=world.scratch_of(STATE))
        job.request([A])
        resolved = [world.poll(job, seconds) for seconds in (1.0, 0.5, 1.0, 0.5, 0.1)]
        assert resolved == [set(), set(), set(), set(), {A}]

    def test_a_refusal_for_now_is_asked_again_soon(self, world):
        store, layers = moved(world)
        view, world.view = world.view, type(world.view)()
        job = world.job(store, layers)
        job.request([A])
        for _ in range(3):
            assert world.poll(job, 0.02) == set()
        asked = world.network.count("look_up")
        assert asked == 1
        world.view = view
        assert world.poll(job, 0.05) == {A}

    def test_a_state_manager_whose_view_never_catches_up_is_given_up(self, world):
        store, layers = moved(world)
        world.view = type(world.view)()
        job = world.job(store, layers, scratch=world.scratch_of(STATE))
        job.request([A])
        resolved = set()
        for _ in range(40):
            resolved |= world.poll(job, 0.05)
        assert resolved == {A}

    def test_a_final_refusal_ends_the_migration(self, world):
        store, layers = moved(world)
        job = world.job(store, layers, BLOCK)
        world.poll(job, budget_s=0)
        world.assign("c", 3, (Layer("b", 2), *layers))
        job.request([A])
        for _ in range(3):
            world.poll(job, 0.1)
        assert job.superseded
        assert job.progress().phase.startswith("superseded")
        asked = len(world.network.calls)
        job.request([B])
        assert world.poll(job, 60) == set()
        assert len(world.network.calls) == asked
        assert job.stalled is None

    @pytest.mark.parametrize("wrong", [{"epoch": 7}, {"offset": 9}])
    @pytest.mark.parametrize("strategy", [Strategy.LAZY, Strategy.BLOCK])
    def test_an_answer_of_another_copy_or_an_older_state_is_dropped(self, world, wrong, strategy):
        store, layers = moved(world)
        world.network.garble = lambda answer: replace(answer, **wrong)
        job = world.job(store, layers, Manner(strategy=strategy), scratch=world.scratch_of({**STATE, A: b"right"}))
        job.request([A])
        resolved = set()
        for _ in range(4):
            resolved |= world.poll(job)
        assert resolved == {A}
        assert store.get_many([A]) == [b"right"]

    def test_late_answers_of_a_closed_job_change_nothing(self, world):
        store, layers = moved(world)
        world.network.delay_s = 0.1
        job = world.job(store, layers, BLOCK)
        job.request([A])
        world.poll(job)
        job.close()
        for _ in range(5):
            assert world.poll(job, 1) == set()
        assert content(store) == {}
        assert job.closed

    def test_a_job_that_does_not_move_says_what_is_missing_and_of_whom(self, world):
        store, layers = moved(world)
        world.network.cut.add("a")

        def failing():
            raise RestoreStalledError("no leader")

        job = world.job(store, layers, scratch=failing)
        world.poll(job, 100)
        assert job.stalled is None
        job.request([A])
        for _ in range(70):
            world.poll(job, 0.5)
        assert job.stalled == job.progress().stalled
        assert "count/0@2" in job.stalled
        assert "1 keys are waited for, 256 bins are missing" in job.stalled
        assert "asked: a@1 (no answer from a); scratch base: no leader; check that" in job.stalled
        world.network.cut.clear()
        assert world.poll(job, 1) == {A}
        assert job.stalled is None

    def test_a_scratch_base_that_fails_is_tried_again(self, world):
        store = world.over("b", 2, (Layer("a", 1),))
        tries = []

        def build():
            tries.append(1)
            if len(tries) < 3:
                raise RestoreStalledError("no leader")
            return world.scratch_of(STATE)()

        job = world.job(store, (), BLOCK, scratch=build)
        for _ in range(100):
            world.poll(job, 0.2)
        assert content(store) == STATE
        assert len(tries) == 3

    def test_an_undescribed_layer_is_asked_for_its_state_of_now_first(self, world):
        """Its state manager may have opened it long ago, before its owner's last commits."""
        lowest = Layer("a", 1)
        former = world.disk("a").open(TASK, 1)
        former.write([(A, b"old")], meta(5))
        world.assign("b", 2, (lowest,))
        world.job(world.over("b", 2, (lowest,)), (lowest,), offset=0).request([A])
        former.write([(A, b"new")], meta(10))
        store = world.over("c", 3, (Layer("b", 2), lowest), offset=10)
        job = world.job(store, (lowest,), epoch=3, offset=-1)
        job.request([A])
        world.poll(job)
        assert store.get_many([A]) == [b"new"]
        assert world.network.count("describe") == 1


class TestBackground:
    """What comes without being asked for."""

    def hot(self, world, keys):
        layer = world.holder("a", 1, STATE)
        store = world.disk("a").open(TASK, 1)
        store.put_raw([(HOT_KEY, msgspec.msgpack.encode(keys))])
        store.close()
        return world.over("b", 2, (layer,)), (layer,)

    def test_the_hot_set_comes_first(self):
        world = World(chunk_bytes=100)
        hot = [*KEYS[:20], name_of(10_000)]
        store, layers = self.hot(world, hot)
        job = world.job(store, layers, HYBRID)
        world.network.delay_s = 0.001
        job.request([A])
        assert job.progress().phase == "hot keys"
        while job.progress().phase == "hot keys":
            world.poll(job, 0.001)
        world.poll(job, 0.001)
        assert store.unresolved(hot) == []
        assert job.progress().hot_keys == 21
        assert "bins" not in {call for call, _, _ in world.network.calls[:5]}

    @pytest.mark.parametrize("manner", [LAZY, BLOCK, Manner(strategy=Strategy.HYBRID, priority=False)])
    def test_other_manners_ask_for_no_hot_set(self, world, manner):
        store, layers = self.hot(world, KEYS[:20])
        world.poll(world.job(store, layers, manner))
        assert world.network.count("hot") == 0

    def test_without_a_hot_set_from_a_silent_holder_bins_still_come(self, world):
        store, layers = self.hot(world, KEYS[:20])
        world.network.cut.add("a")
        job = world.job(store, layers, HYBRID, scratch=world.scratch_of(STATE))
        world.finish(job)
        assert content(store) == STATE

    def test_one_waiting_chunk_is_installed_however_small_the_budget_and_none_without(self, world):
        store, layers = moved(world)
        job = world.job(store, layers, BLOCK)
        for _ in range(5):
            world.poll(job, budget_s=0)
        assert job.progress().bins_done == 0
        assert world.network.count("bins") == 2  # one waits, one is a chunk ahead

    def test_hastened_bins_come_first_if_there_is_priority(self, world):
        for priority, expected in ((True, 77), (False, 0)):
            store, layers = moved(world)
            job = world.job(store, layers, Manner(strategy=Strategy.BLOCK, priority=priority))
            job.hasten([77])
            world.network.delay_s = 0.001
            while not job.progress().bins_done:
                world.poll(job, 0.001)
            assert store.has_bin(expected)
            store.close()
            world = World()

    def test_bins_that_event_time_waits_for_come_at_once_whatever_the_strategy(self, world):
        for manner in (Manner(strategy=Strategy.LAZY), Manner(strategy=Strategy.HYBRID, priority=False, pacing=0.01)):
            store, layers = moved(world)
            job = world.job(store, layers, manner)
            job.fetch([77, 78])
            for _ in range(50):
                world.poll(job, 0.001)
            assert store.has_bin(77)
            assert store.has_bin(78)
            assert manner.strategy is not Strategy.LAZY or job.progress().bins_done <= 2 * 256 // manner.bins
            store.close()
            world = World()

    def test_paced_bins_leave_the_owner_its_time(self, world):
        """Of 10 ms for each chunk, at a pace of a quarter 30 ms are left in between."""
        store, layers = moved(world)
        job = world.job(store, layers, Manner(strategy=Strategy.HYBRID, priority=False, pacing=0.25))
        install_bins = store.install_bins

        def slow(*args):
            world.clock.advance(0.01)
            install_bins(*args)

        store.install_bins = slow
        began_s = world.clock.monotonic_s()
        for _ in range(1000):
            world.poll(job, 0.001, budget_s=0.004)
        share = job.progress().bins_done * 0.01 / (world.clock.monotonic_s() - began_s)
        assert 0.15 < share < 0.3

    def test_sources_give_hints_that_allow_large_units(self, world):
        store, layers = moved(world)
        job = world.job(store, layers, Manner(strategy=Strategy.BLOCK, bins=4), offset=-1)
        world.finish(job)
        assert sorted(size for call, _, size in world.network.calls if call == "bins")[-1] == 64
        assert content(store) == STATE

    def test_the_rate_is_that_of_the_last_second(self, world):
        store, layers = moved(world)
        job = world.job(store, layers, HYBRID)
        world.poll(job, 0.0)
        world.poll(job, 2.0)
        progress = job.progress()
        assert progress.bytes > 0
        assert progress.rate == pytest.approx(progress.bytes / 2)


class TestBytes:
    """What has come, whatever became of it."""

    SIZE = sum(len(key) + len(value) for key, value in STATE.items())

    def test_look_ups_count_by_the_values_that_they_bring(self, world):
        store, layers = moved(world)
        job = world.job(store, layers)
        job.request([A, name_of(10_000), KEYS[150]])
        world.poll(job)
        assert job.progress().bytes == len(STATE[A]) + len(STATE[KEYS[150]])
        world.poll(job, 2.0)
        assert job.progress().rate == pytest.approx(job.progress().bytes / 2)

    def test_bins_count_by_keys_and_values(self, world):
        store, layers = moved(world)
        job = world.job(store, layers, BLOCK)
        world.finish(job)
        assert job.progress().bytes == self.SIZE

    def test_what_is_dropped_and_read_again_counts_each_time(self, world):
        """A chunk of another epoch is no answer; the same bins are asked for again."""
        store, layers = moved(world)
        job = world.job(store, layers, BLOCK, complete=ALL_BINS)
        garbled = []

        def garble(answer):
            if isinstance(answer, Chunk) and answer.entries and not garbled:
                garbled.append(sum(len(key) + len(value) for key, value in answer.entries))
                return replace(answer, epoch=7)
            return answer

        world.network.garble = garble
        world.finish(job)
        assert content(store) == STATE
        assert job.progress().bytes == self.SIZE + garbled[0]


class TestOwnerThatDiedBeforeItsLastBatch:
    """The copy of a killed owner lacks what its last transaction committed; a store above it relies on that (I4)."""

    def three(self, world, former_offset):
        former = world.holder("a", 1, {A: b"old"}, offset=former_offset)
        middle = world.over("b", 2, (former,), offset=10)
        middle.write([], meta(12, 2))
        middle.close()
        layers = (Layer("b", 2), former)
        return world.over("c", 3, layers, offset=12), layers

    def test_it_is_not_asked_for_older_values(self, world):
        store, layers = self.three(world, former_offset=8)
        job = world.job(store, layers, epoch=3, offset=-1, scratch=world.scratch_of({A: b"new"}, epoch=3))
        job.request([A])
        for _ in range(100):
            world.poll(job, 0.1)
        assert store.get_many([A]) == [b"new"]

    def test_one_that_has_come_so_far_is(self, world):
        store, layers = self.three(world, former_offset=10)
        job = world.job(store, layers, epoch=3, offset=-1)
        job.request([A])
        for _ in range(10):
            world.poll(job, 0.01)
        assert store.get_many([A]) == [b"old"]


def test_a_usable_layer_needs_no_more_than_its_name():
    assert UsableLayer(Layer("a", 1)).offset == -1


FILTERED = Manner(strategy=Strategy.LAZY, key_filter=True)
NEW = [name_of(number) for number in range(10_000, 10_200)]
"""Keys that no former owner had."""


class TestKeyFilter:
    def job(self, world, manner=FILTERED, complete=ALL_BINS, state=STATE):
        store, layers = moved(world, state)
        job = world.job(store, layers, manner, complete=complete)
        world.poll(job)
        world.poll(job)
        return store, job

    def test_absent_keys_are_told_without_a_look_up_and_stay_so(self, world):
        store, job = self.job(world)
        job.request([*NEW, A])
        asked = sum(size for call, _, size in world.network.calls if call == "look_up")
        assert asked < 20  # A, and one in a hundred that the filter is not sure of
        assert world.poll(job) == {*NEW, A}
        assert store.get_many([NEW[0], A]) == [None, b"0"]
        assert job.store.unresolved(NEW) == []
        assert job.progress().keys_excluded == 201 - asked
        assert world.network.count("filter") == 1
        assert world.network.count("describe") == 0

    def test_a_key_that_the_former_owner_had_is_looked_up(self, world):
        store, job = self.job(world)
        job.request(KEYS)
        assert world.poll(job) == set(KEYS)
        assert store.get_many(KEYS) == list(STATE.values())
        assert job.progress().keys_excluded == 0

    def test_what_the_owner_wrote_counts_whatever_the_filter_says(self, world):
        store, job = self.job(world)
        store.write([(NEW[0], b"new")], meta(20, 2))
        job.request([NEW[0]])
        world.poll(job)
        assert store.get_many([NEW[0]]) == [b"new"]

    @pytest.mark.parametrize("manner", [LAZY, Manner(strategy=Strategy.BLOCK, key_filter=True)])
    def test_none_is_asked_for_where_it_is_not_wanted_or_nothing_is_looked_up(self, world, manner):
        self.job(world, manner)
        assert world.network.count("filter") == 0

    def test_none_is_asked_of_a_layer_that_is_incomplete_or_not_known_to_be_complete(self, world):
        _, job = self.job(world, complete=NO_BINS)
        job.request(NEW[:1])
        assert world.poll(job) == set(NEW[:1])
        assert (world.network.count("filter"), world.network.count("look_up")) == (0, 1)

    def test_a_layer_whose_state_is_not_known_is_described_first(self, world):
        store, layers = moved(world)
        job = world.job(store, layers, FILTERED, offset=-1)
        for _ in range(4):
            world.poll(job, 0.01)
        assert [call for call, _, _ in world.network.calls] == ["describe", "filter"]

    @pytest.mark.parametrize(
        "answer",
        [
            lambda found: replace(found, epoch=0),
            lambda found: replace(found, offset=9),
            lambda found: raising(HolderUnavailableError("too many keys")),
            lambda found: raising(NoSuchCopyError("gone")),
            lambda found: raising(StaleRequestError("over", later=False)),
        ],
        ids=["another epoch", "older", "no answer", "no copy", "refused"],
    )
    def test_without_it_look_ups_tell_the_same_and_nobody_is_blamed(self, world, answer):
        world.network.garble = lambda found: answer(found) if isinstance(found, KeyFilter) else found
        _, job = self.job(world)
        job.request([NEW[0], A])
        assert world.poll(job) == {NEW[0], A}
        assert world.network.count("filter") == 1
        assert world.network.calls[-1] == ("look_up", "a", 2)
        assert not job.superseded
        assert world.built == 0

    def test_one_that_is_refused_for_now_is_asked_for_again(self, world):
        refusals = [StaleRequestError("not read yet", later=True)] * 2
        world.network.garble = lambda found: (
            raising(refusals.pop()) if isinstance(found, KeyFilter) and refusals else found
        )
        _, job = self.job(world)
        for _ in range(20):
            world.poll(job, 0.02)
        assert world.network.count("filter") == 3
        job.request(NEW)
        assert job.progress().keys_excluded > 180

    def test_one_that_never_comes_is_given_up(self, world):
        store, layers = moved(world)
        job = world.job(store, layers, FILTERED, complete=ALL_BINS)
        world.network.delay_s = 100.0
        world.poll(job)
        world.network.delay_s = 0.0
        for _ in range(10):
            world.poll(job, 1.0)
        assert world.network.count("filter") == 1
        job.request([A])
        assert world.poll(job) == {A}


def raising(error):
    raise error
