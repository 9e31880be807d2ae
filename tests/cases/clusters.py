"""What the cases do with a whole cluster in memory: grow it, load it, let one of its replicas stand still in a call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from greenlet import getcurrent, greenlet

from statemgr.control.records import Manner, Strategy
from statemgr.migration.ports import Spawn
from tests.unit.towpath.stage.cluster import TASKS, Cluster, Node, rows_of
from towpath.query.plan import StagePlan
from towpath.stage.background import at_once
from towpath.stage.parking import Parking

TURNS = 40
"""In which a replica makes every call that it makes under load."""

KEYS = 120
"""Auctions that have a count before anything happens."""


def grown(
    *replicas: str,
    strategy: Strategy = Strategy.HYBRID,
    keys: Iterable[int] = range(KEYS),
    bins: int = 4,
    state_dir: Path | None = None,
    plan: StagePlan | None = None,
    spawn: Spawn = at_once,
) -> Cluster:
    """A cluster at rest, in which every key has a count."""
    cluster = Cluster(Manner(strategy=strategy, bins=bins), state_dir=state_dir, plan=plan, spawn=spawn)
    for name in replicas or ("a",):
        cluster.add(name)
    cluster.settle()
    cluster.write(rows_of(keys))
    cluster.rest()
    return cluster


def work(cluster: Cluster, look: Callable[[], bool], *, most: int = 4000) -> None:
    """Input in every step, until something is so."""
    for number in range(most):
        if look():
            return
        cluster.write(rows_of([number * 7 % KEYS, number * 13 % KEYS, number * 29 % (KEYS + 40)]))
        cluster.step()
    raise AssertionError(cluster.describe())


def running(cluster: Cluster, *replicas: str) -> Callable[[], bool]:
    """Whether exactly these replicas run tasks, and all tasks run."""
    return lambda: set(cluster.owners().values()) == set(replicas) and len(cluster.owners()) == TASKS


def settled(cluster: Cluster, limit_s: float = 300.0) -> None:
    """Wait until everything is done; everybody's waits add up, so simulated time runs fast."""
    cluster.until("all tasks are where they should be, and done", cluster.settled, limit_s)


def require_outputs(cluster: Cluster) -> None:
    """Every key's counts are put out once and in order, whatever state is still elsewhere."""
    cluster.rest()
    counts: dict[int, list[int]] = {}
    for record in cluster.output():
        counts.setdefault(record.value["auction"], []).append(record.value["count"])
    rows = Counter(row["auction"] for row in cluster.sent)
    assert counts == {auction: list(range(1, number + 1)) for auction, number in rows.items()}


def owned_by(cluster: Cluster, partition: int, name: str) -> Callable[[], bool]:
    """Whether a replica runs a task."""
    return lambda: cluster.owners().get(partition) == name


def moved(cluster: Cluster, partition: int, name: str) -> None:
    """Ask for a move, and work until the task runs there."""
    cluster.move(partition, name)
    work(cluster, owned_by(cluster, partition, name))


def elapsed_s(cluster: Cluster, act: Callable[[], object]) -> float:
    """Simulated time that something takes."""
    began_s = cluster.clock.monotonic_s()
    act()
    return cluster.clock.monotonic_s() - began_s


@contextmanager
def room_for(rows: int) -> Iterator[None]:
    """Room for few parked rows."""
    defaults: dict[str, Any] = Parking.__init__.__kwdefaults__
    before = dict(defaults)
    defaults["most_rows"] = rows
    try:
        yield
    finally:
        defaults.update(before)


class Standstill:
    """A replica that stands still in the middle of one of its turns, as one does that is stopped or hangs.

    Its turn runs in a greenlet; :meth:`here` leaves it, until :meth:`go_on`. Between the two the replica is asleep for
    the cluster: it has no turns, and says nothing unless the test repeats its words.
    """

    def __init__(self, cluster: Cluster, node: Node) -> None:
        self._cluster = cluster
        self._node = node
        self._main = getcurrent()
        self._turn = greenlet(self._turns)
        self._reached = False

    def here(self) -> None:
        """Stand still at this place of the turn."""
        self._reached = True
        self._main.switch()

    def begin(self) -> None:
        """Give the replica turns, in one of which it stands still."""
        self._node.asleep = True
        self._turn.switch()
        assert self._reached, f"{TURNS} turns ended without a standstill"

    def go_on(self) -> None:
        """Let it wake up and end its turn."""
        self._turn.switch()
        assert self._turn.dead
        self._node.asleep = False

    @property
    def lasts(self) -> bool:
        """Whether it stands still now."""
        return self._reached and not self._turn.dead

    def _turns(self) -> None:
        for _ in range(TURNS):
            self._node.replica.turn()
            if self._reached:
                return
