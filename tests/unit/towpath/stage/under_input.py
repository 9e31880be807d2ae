"""A cluster whose size changes while rows come in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from statemgr.control.records import Assigned, Manner
from tests.unit.towpath.stage.cluster import TASKS, Cluster, rows_of

KEYS = 1200
"""Auctions that have a count before anything moves: 300 a task, more than are remembered as hot."""

HOT = range(20)
"""Auctions of which every batch has a row."""


def grown(manner: Manner, *replicas: str, state_dir: Path | None = None, **more: Any) -> Cluster:
    """A cluster at rest, in which every key has a count."""
    cluster = Cluster(manner, state_dir=state_dir, **more)
    for name in replicas or ("a",):
        cluster.add(name)
    cluster.settle()
    cluster.write(rows_of(range(KEYS)))
    cluster.rest()
    for _ in range(4):
        cluster.write(rows_of(HOT))
        cluster.step()
    cluster.rest()
    return cluster


def work(
    cluster: Cluster, look: Callable[[], bool], *, most: int = 3000, auctions: Sequence[int] = range(KEYS + 50)
) -> None:
    """Input in every step, of hot and of other keys, until something is so."""
    for number in range(most):
        if look():
            return
        cluster.write(rows_of({number * 7 % 20, *(auctions[number * step % len(auctions)] for step in (13, 29))}))
        cluster.step()
    raise AssertionError(cluster.describe())


def running(cluster: Cluster, *replicas: str) -> Callable[[], bool]:
    """Whether exactly these replicas run tasks, and all tasks run."""
    return lambda: set(cluster.owners().values()) == set(replicas) and len(cluster.owners()) == TASKS


def left(cluster: Cluster, name: str) -> Callable[[], bool]:
    return lambda: cluster.nodes[name].left and cluster.settled()


def moves(cluster: Cluster, since: int) -> list[Assigned]:
    """Assignments to another owner than before."""
    return [event for event in cluster.journal.events(since) if isinstance(event, Assigned)]


def moved_to_b(manner: Manner, **more: Any) -> tuple[Cluster, int, list[Assigned]]:
    """A cluster whose second replica has just begun to run two of the tasks; the journal's place before that."""
    cluster = grown(manner, **more)
    mark = cluster.journal.mark
    cluster.add("b")
    work(cluster, running(cluster, "a", "b"))
    return cluster, mark, moves(cluster, mark)
