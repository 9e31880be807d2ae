"""Files whose tasks move while rows come: each row is in one of them, once, whoever writes it."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from statemgr.control.records import Manner, Strategy
from tests.cases.clusters import Standstill
from tests.cases.feeds import END_MS, Feed, end, grow_and_shrink
from tests.harness.files import everything_in, files_in, rows_in
from tests.unit.towpath.stage.cluster import STAGE, TASKS, Cluster
from tests.unit.towpath.stage.plans import APP, SINK, SOURCE
from towpath.query import Query, tumbling
from towpath.query.plan import StagePlan

WINDOW_MS = 400


def plan(root: Path) -> StagePlan:
    """One stage, straight from the source, that writes files; markers are the next one's."""
    query = Query(APP, partitions=TASKS)
    schema = {"auction": pl.Int64, "t": pl.Int64}
    rows = query.source(SOURCE, schema=schema, event_time="t", lag_ms=20, stage=STAGE)
    rows = rows.with_columns(p=pl.col("auction") % TASKS, w=pl.col("t") // WINDOW_MS * WINDOW_MS)
    period: dict[str, Any] = {"window": tumbling(WINDOW_MS), "on": "t", "complete_after_ms": 50}
    rows.sink_files(SINK, root, partition_by=("p", "w"), roll_rows=23, **period)
    return query.plan().stage(STAGE)


def require_exact(cluster: Cluster, root: Path) -> None:
    rows = [row for row in cluster.sent if row["t"] < END_MS]
    parts = ({"p": str(row["auction"] % TASKS), "w": str(row["t"] // WINDOW_MS * WINDOW_MS)} for row in rows)
    sent = [{**row, **part} for row, part in zip(rows, parts, strict=True)]
    assert rows_in(root) == Counter(tuple(sorted(row.items())) for row in sent)
    assert everything_in(root) == files_in(root)
    announced = [record.value for record in cluster.output()]
    assert sorted(each["file"] for each in announced) == files_in(root)
    assert sum(each["rows"] for each in announced) == len(sent)
    assert all(file.until > END_MS for file in cluster.state().values())


@pytest.mark.parametrize("strategy", [Strategy.RESTART, Strategy.REPLAY, Strategy.LAZY, Strategy.HYBRID])
def test_each_row_is_in_one_file_whoever_wrote_it(strategy: Strategy, tmp_path: Path) -> None:
    cluster = Cluster(Manner(strategy=strategy, bins=4), plan=plan(tmp_path / "out"))
    grow_and_shrink(cluster)
    end(cluster)
    require_exact(cluster, tmp_path / "out")
    cluster.close()


def test_stores_on_disk_tell_which_files_are_open(tmp_path: Path) -> None:
    manner = Manner(strategy=Strategy.HYBRID, bins=4)
    cluster = Cluster(manner, plan=plan(tmp_path / "out"), state_dir=tmp_path / "state")
    grow_and_shrink(cluster)
    end(cluster)
    require_exact(cluster, tmp_path / "out")
    cluster.close()


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_an_owner_that_is_given_up_while_it_writes_changes_nothing_when_it_wakes_up(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "out"
    cluster = Cluster(Manner(strategy=Strategy.HYBRID, bins=4), plan=plan(root))
    cluster.add("a")
    cluster.add("b")
    cluster.settle()
    Feed(cluster).steps(20)
    standstill = Standstill(cluster, cluster.nodes["a"])
    usual = getattr(os, call)

    def sleeps(*given: Any) -> None:
        monkeypatch.setattr(os, call, usual)
        standstill.here()
        usual(*given)

    for row in list(cluster.sent):  # enough to close files
        cluster.write([row])
    monkeypatch.setattr(os, call, sleeps)
    standstill.begin()
    cluster.until("the other has all tasks", lambda: len(cluster.nodes["b"].owned()) == TASKS)
    for _ in range(100):
        cluster.step()
    standstill.go_on()
    cluster.settle()
    end(cluster)
    require_exact(cluster, root)
    cluster.close()
