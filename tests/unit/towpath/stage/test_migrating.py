"""Lists on their way: rows wait until head and chunks are here."""

from __future__ import annotations

import pytest

from statemgr.control.records import Manner, Strategy
from statemgr.layout import changelog_key, store_key
from statemgr.state import TableSpec, TaskState, head_codec, json_codec
from statemgr.store import MemoryBackend
from tests.unit.statemgr.migration.world import TASK, World, meta
from towpath.stage.migrating import Migration

WAITING = TableSpec("waiting", 1, head_codec(int, int), json_codec(list[int]))
LAZY = Manner(strategy=Strategy.LAZY)


def key_of(name: bytes) -> bytes:
    return store_key(changelog_key(WAITING.id, name))


LONG, OTHER, SHORT, ABSENT = map(key_of, [b"long", b"other", b"short", b"absent"])
SIZES = {b"long": 100, b"other": 20, b"short": 3}


def stored() -> dict[bytes, bytes]:
    state = TaskState(TASK, 1, MemoryBackend().open(TASK, 1), [WAITING])
    for name, size in SIZES.items():
        for row in range(size):
            state.lists("waiting").append_many([name], [[row]])
    state.changes()
    state.apply(meta(10, 1))
    with state.store.scan() as pairs:
        return dict(pairs)


class Way:
    """A task of one holder, and what is told of its keys."""

    def __init__(self, manner: Manner = LAZY) -> None:
        self.world = World()
        layers = (self.world.holder("a", 1, stored()),)
        store = self.world.over("b", 2, layers)
        self.state = TaskState(TASK, 2, store, [WAITING])
        self.job = self.world.job(store, layers, manner)
        self.resolved: list[bytes] = []
        self.migration = Migration(self.job, self.resolved.extend, rest_of=self.state.rest_of)

    def turn(self) -> list[bytes]:
        self.resolved.clear()
        self.world.clock.advance(0.01)
        self.migration.advance(self.world.clock.monotonic_s(), 1.0)
        return sorted(self.resolved)

    def rows(self, name: bytes) -> list[int]:
        (rows,) = self.state.lists("waiting").get_many([name])
        return rows


def test_a_list_is_told_when_its_chunks_are_here_and_others_at_once() -> None:
    way = Way()
    way.migration.request([LONG, SHORT, ABSENT])
    assert way.turn() == sorted([SHORT, ABSENT])
    assert way.turn() == [LONG]
    assert way.rows(b"long") == list(range(100))
    assert way.world.network.calls == [("look_up", "a", 3), ("look_up", "a", 12)]
    assert way.turn() == []


def test_only_the_chunks_are_fetched_where_the_head_is_here() -> None:
    way = Way()
    way.migration.request([OTHER])
    assert way.turn() == []
    way.state.store.install([(key, stored()[key]) for key in (LONG,)])
    way.migration.request([LONG])
    assert way.turn() == sorted([LONG, OTHER])
    assert sum(size for _, _, size in way.world.network.calls) == 1 + 2 + 12


def test_a_list_that_is_asked_for_again_is_told_once_it_is_whole() -> None:
    way = Way()
    way.migration.request([LONG])
    assert way.turn() == []
    for _ in range(3):
        way.migration.request([LONG])
    assert way.turn() == [LONG]
    way.migration.request([LONG])
    assert way.rows(b"long") == list(range(100))


def test_chunks_that_their_bin_brings_complete_the_list() -> None:
    way = Way()
    way.migration.request([LONG])
    way.turn()
    way.world.network.cut.add("a")
    bin_ = LONG[0]
    way.state.store.install_bins(bin_, bin_, [(key, value) for key, value in stored().items() if key[0] == bin_])
    way.state.store.complete_bins(bin_, bin_)
    way.migration.request([LONG])
    way.turn()
    assert way.rows(b"long") == list(range(100))


@pytest.mark.parametrize("strategy", [Strategy.HYBRID, Strategy.BLOCK])
def test_bins_bring_whole_lists(strategy: Strategy) -> None:
    way = Way(Manner(strategy=strategy, bins=8))
    way.migration.request([LONG, SHORT])
    told: list[bytes] = []
    for _ in range(5000):
        told += way.turn()
        if way.migration.complete:
            break
    assert set(told) == {LONG, SHORT}
    assert [way.rows(name) for name in SIZES] == [list(range(size)) for size in SIZES.values()]
