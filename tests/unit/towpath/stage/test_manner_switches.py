"""Each switch of a manner changes what it says: observed on a whole cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from statemgr.control.records import Manner, Strategy
from tests.unit.towpath.stage.cluster import TASKS, Cluster, rows_of, stored
from tests.unit.towpath.stage.under_input import KEYS, moved_to_b, work
from tests.unit.towpath.stage.watched import WRITE_S

pytestmark = pytest.mark.slow


def lazily(**switches: Any) -> tuple[Cluster, int]:
    """Tasks have moved, nothing of their state; what is written from now on is one batch. The journal's place."""
    cluster, _, _ = moved_to_b(Manner(strategy=Strategy.LAZY, **switches))
    cluster.rest()
    return cluster, cluster.journal.mark


def written(cluster: Cluster, auctions: Sequence[int]) -> list[int]:
    """Those of some auctions that belong to tasks that have moved."""
    cluster.write(rows_of(auctions))
    cluster.rest()
    moved = {partition for partition, epoch in cluster.epochs().items() if epoch == 2}
    return [auction for auction in auctions if auction % TASKS in moved]


def looked_up(cluster: Cluster, mark: int) -> list[list[bytes]]:
    return [request.keys for request in cluster.journal.requests("look_up", since=mark)]


def test_without_priority_no_hot_set_is_asked_for() -> None:
    cluster, _, _ = moved_to_b(Manner(strategy=Strategy.HYBRID, priority=False, bins=64))
    work(cluster, cluster.settled)
    assert not cluster.journal.requests("hot")
    assert cluster.journal.requests("bins")
    cluster.assert_exact()


@pytest.mark.parametrize("priority", [True, False])
def test_priority_lets_the_bins_of_rows_that_wait_jump_the_queue(priority: bool) -> None:
    cluster, _, moved = moved_to_b(Manner(strategy=Strategy.HYBRID, priority=priority, pacing=0.05))
    task = moved[0].task
    last = max((stored(auction)[0], auction) for auction in range(1000, KEYS) if auction % TASKS == task.partition)
    mark = cluster.journal.mark
    cluster.write(rows_of([last[1]]))
    work(cluster, cluster.settled, auctions=(0,))
    asked = [request.bins for request in cluster.journal.requests("bins", since=mark) if request.address.task == task]
    place = asked.index((last[0], last[0]))
    assert place < 4 if priority else asked == sorted(asked)
    cluster.assert_exact()


@pytest.mark.parametrize("look_ahead", [True, False])
def test_look_ahead_asks_for_all_keys_of_a_batch_at_once(look_ahead: bool) -> None:
    cluster, mark = lazily(look_ahead=look_ahead)
    wanted = written(cluster, range(400, 440))
    asked = looked_up(cluster, mark)
    assert sorted(key for keys in asked for key in keys) == sorted(map(stored, wanted))
    assert len(asked) == (2 if look_ahead else len(wanted))
    cluster.ask(manner=Manner())
    cluster.drain("a")
    cluster.assert_exact()


@pytest.mark.parametrize("key_filter", [True, False])
def test_key_filter_spares_the_look_up_of_keys_that_the_former_owner_did_not_have(key_filter: bool) -> None:
    cluster, mark = lazily(key_filter=key_filter)
    assert len(cluster.journal.requests("filter")) == (2 if key_filter else 0)
    new = written(cluster, range(5000, 5200))
    asked = [key for keys in looked_up(cluster, mark) for key in keys]
    assert set(asked) <= set(map(stored, new))
    assert len(asked) <= len(new) / 20 if key_filter else len(asked) == len(new)
    mark = cluster.journal.mark
    old = written(cluster, range(500, 520))
    assert {key for keys in looked_up(cluster, mark) for key in keys} == set(map(stored, old))
    cluster.drain("a")
    cluster.assert_exact()


def filled_in_s(pacing: float) -> float:
    """How long the bins of two tasks take."""
    cluster, _, _ = moved_to_b(Manner(strategy=Strategy.HYBRID, priority=False, pacing=pacing, bins=16))
    began_s = cluster.clock.monotonic_s()
    cluster.settle()
    took_s = cluster.clock.monotonic_s() - began_s
    cluster.assert_exact()
    return took_s


def test_pacing_is_the_part_of_the_owners_time_that_bins_may_take() -> None:
    """A chunk keeps the owner busy for 2 ms; at 2 % the next comes 98 ms later, and there are 16."""
    assert filled_in_s(0.02) > 15 * 2 * WRITE_S * (1 / 0.02 - 1) > 2 * filled_in_s(1.0)


@pytest.mark.parametrize("bins", [1, 16, 256])
def test_bins_is_the_number_of_units_in_which_the_rest_comes(bins: int) -> None:
    cluster, _, moved = moved_to_b(Manner(strategy=Strategy.BLOCK, bins=bins))
    for each in moved:
        asked = [request for request in cluster.journal.requests("bins") if request.address.task == each.task]
        width = 256 // bins
        assert [request.bins for request in asked] == [(at, at + width - 1) for at in range(0, 256, width)]
    cluster.assert_exact()
