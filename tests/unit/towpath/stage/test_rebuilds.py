"""What a lost holder had is made anew from the changelog, and holds up nothing else."""

from __future__ import annotations

from statemgr.control.records import Manner, Strategy
from tests.unit.towpath.stage.beside import Held
from tests.unit.towpath.stage.cluster import TASKS, Cluster, rows_of

KEYS = 40


def test_a_lost_holder_of_many_tasks_holds_up_no_other_move() -> None:
    rebuild = Held()
    cluster = Cluster(Manner(strategy=Strategy.LAZY), rebuild=rebuild)
    cluster.add("a")
    cluster.settle()
    cluster.write(rows_of(range(KEYS)))
    cluster.rest()
    cluster.add("b")
    cluster.until("b runs tasks", lambda: "b" in cluster.owners().values())
    moved = [partition for partition, owner in cluster.owners().items() if owner == "b"]
    stays = next(partition for partition in range(TASKS) if partition not in moved)

    rebuild.holds = True
    cluster.cut.add("a")
    cluster.write(rows_of(range(KEYS)))
    cluster.until("scratch bases are wanted", lambda: len(rebuild.waiting) == len(moved))
    assert len(moved) > 1

    cluster.move(stays, "b")
    cluster.until("another task is opened", lambda: cluster.owners().get(stays) == "b")
    rebuild.holds = False
    rebuild.run()
    cluster.hurry()
    cluster.assert_exact()
