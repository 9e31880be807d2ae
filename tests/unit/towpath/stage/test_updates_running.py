"""Windows that give their results whenever they change: the last one is that of the closed window."""

from __future__ import annotations

import random
from collections import Counter

import polars as pl
import pytest

from tests.unit.towpath.stage.event_times import Harmed, end
from towpath.query import Query, agg, hopping, tumbling

SCHEMA = {"k": pl.Int64, "v": pl.Int64, "t": pl.Int64}
KEYS = 5


def query(window, step):
    found = Query("app", partitions=4)
    rows = found.source("in", schema=SCHEMA, event_time="t", lag_ms=20)
    step(rows.key_by("k").stage("count").window(window, on="t", emit="update")).sink("out", key="k")
    return found


def counted(windowed):
    return windowed.aggregate(n=agg.count(), most=agg.max("v"))


def ranked(windowed):
    return windowed.top(2, by="v")


def stream(seed):
    chance = random.Random(seed)
    return [
        [{"k": chance.randrange(KEYS), "v": 2 * n + part, "t": n * 7 - chance.randrange(10) + 10} for n in range(150)]
        for part in range(2)
    ]


HARMS = ["nothing", "crash", "crash, stores lost", "restart", "scale"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("harm", HARMS)
def test_the_last_row_of_each_key_and_window_is_that_of_all_its_rows(harm, seed):
    rows = stream(seed)
    harmed = Harmed(query(hopping(100, 50), counted), harm, seed, {"source": 1, "count": 2})
    harmed.pipe_all(rows)
    end(harmed.driver, {"k": 9, "v": -1, "t": 100_000})
    expected = Counter()
    most = {}
    for row in (row for part in rows for row in part):
        for start in (row["t"] // 50 * 50, row["t"] // 50 * 50 - 50):
            expected[row["k"], start] += 1
            most[row["k"], start] = max(row["v"], most.get((row["k"], start), -1))
    out = [row for row in harmed.driver.rows("out") if row["k"] != 9]
    last = {(row["k"], row["window_start"]): row for row in out}
    found = {at: (row["n"], row["most"]) for at, row in last.items()}
    assert found == {at: (n, most[at]) for at, n in expected.items()}
    counts = Counter((row["k"], row["window_start"], row["n"]) for row in out)
    assert set(counts.values()) == {1}
    assert all(row["window_end"] == row["window_start"] + 100 for row in out)
    left = harmed.driver.state("count", "aggregate")
    assert left.keys() == {b"[9,100050]", b"[9,100100]"}
    harmed.driver.close()


@pytest.mark.parametrize("harm", HARMS)
def test_the_last_row_of_each_place_is_the_ranking(harm):
    rows = stream(1)
    harmed = Harmed(query(tumbling(100), ranked), harm, 1, {"source": 1, "count": 2})
    harmed.pipe_all(rows)
    end(harmed.driver, {"k": 9, "v": -1, "t": 100_000})
    values = {}
    for row in (row for part in rows for row in part):
        values.setdefault((row["k"], row["t"] // 100 * 100), []).append(row["v"])
    out = [row for row in harmed.driver.rows("out") if row["k"] != 9]
    last = {(row["k"], row["window_start"], row["rank_number"]): row["v"] for row in out}
    assert last == {
        (*at, place): value
        for at, each in values.items()
        for place, value in enumerate(sorted(each, reverse=True)[:2], 1)
    }
    harmed.driver.close()
