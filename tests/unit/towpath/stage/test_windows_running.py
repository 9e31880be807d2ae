"""Windows of event time in running stages: when they close, what is late, and that crashes change nothing."""

from __future__ import annotations

import random
from collections import Counter

import polars as pl
import pytest

from towpath.query import Query, agg, hopping, tumbling
from towpath.testing import StageDriver

SCHEMA = {"k": pl.Int64, "v": pl.Int64, "t": pl.Int64}
SOURCES = 2


HUNDRED = tumbling(100)


def counted(window=HUNDRED, partitions=4, **source):
    """Rows per key and window, and behind that the highest count of each window."""
    query = Query("app", partitions=partitions)
    rows = query.source("in", schema=SCHEMA, event_time="t", **{"lag_ms": 10, **source})
    counts = rows.key_by("k").stage("count").window(window, on="t").aggregate(n=agg.count(), most=agg.max("v"))
    counts.sink("counts", key="k")
    renamed = counts.select("k", "n", start=pl.col("window_start"))
    renamed.key_by("start").stage("highest").window(tumbling(100), on="start").highest("n").sink("highest")
    return query


def running(query=None, **how):
    return StageDriver(query or counted(), partitions={"in": SOURCES}, **how)


def row(time, key=1, value=0):
    return {"k": key, "v": value, "t": time}


def pipe(driver, rows, partition=0):
    driver.pipe("in", rows, partition=partition)
    settle(driver)


def settle(driver):
    for _ in range(4):
        driver.run_until_idle()
        driver.advance_time(150)
    driver.run_until_idle()


def counts(driver):
    return sorted((r["k"], r["window_start"], r["window_end"], r["n"]) for r in driver.rows("counts"))


def test_a_window_closes_when_every_partition_has_come_to_its_end_and_the_lag():
    driver = running()
    pipe(driver, [row(10), row(20)])
    pipe(driver, [row(109)])
    pipe(driver, [row(200)], partition=1)
    assert counts(driver) == []  # partition 0 is at 109, 10 of which are the lag
    pipe(driver, [row(110)])
    assert counts(driver) == [(1, 0, 100, 2)]
    pipe(driver, [row(400)])
    assert counts(driver) == [(1, 0, 100, 2), (1, 100, 200, 2)] or counts(driver) == [(1, 0, 100, 2)]
    pipe(driver, [row(400)], partition=1)
    assert counts(driver) == [(1, 0, 100, 2), (1, 100, 200, 2), (1, 200, 300, 1)]
    assert driver.state("count", "aggregate").keys() == {b"[1,500]"}
    driver.close()


def test_what_comes_after_its_window_was_closed_is_left_out_and_counted():
    driver = running()
    for partition in range(SOURCES):
        pipe(driver, [row(50), row(250)], partition=partition)
    assert counts(driver) == [(1, 0, 100, 2)]
    pipe(driver, [row(60), row(260)])
    pipe(driver, [row(999)], partition=0)
    pipe(driver, [row(999)], partition=1)
    assert counts(driver) == [(1, 0, 100, 2), (1, 200, 300, 3)]
    driver.close()


def test_rows_of_one_batch_are_judged_by_the_order_in_which_they_come():
    driver = running()
    pipe(driver, [row(999)], partition=1)
    pipe(driver, [row(50), row(500), row(60), row(555)])
    pipe(driver, [row(999)])
    assert (1, 0, 100, 2) in counts(driver) or (1, 0, 100, 1) in counts(driver)
    driver.close()


def test_a_partition_from_which_nothing_comes_is_not_waited_for():
    driver = running(counted(idle_s=1_000.0))
    pipe(driver, [row(50), row(250)])
    assert counts(driver) == []
    driver.advance_time(900_000)
    pipe(driver, [row(260)])
    assert counts(driver) == []
    driver.advance_time(200_000)
    pipe(driver, [row(270)])
    assert counts(driver) == [(1, 0, 100, 1)]
    pipe(driver, [row(80), row(290)], partition=1)  # back again: 80 is late
    pipe(driver, [row(999)], partition=1)
    pipe(driver, [row(999)])
    assert counts(driver) == [(1, 0, 100, 1), (1, 200, 300, 4)]
    driver.close()


def test_hopping_windows_have_each_row_several_times():
    driver = running(counted(hopping(100, 50)))
    for partition in range(SOURCES):
        pipe(driver, [row(60), row(999)], partition=partition)
    assert counts(driver) == [(1, 0, 100, 2), (1, 50, 150, 2)]
    driver.close()


def test_a_stage_behind_windows_has_windows_of_its_own():
    driver = running()
    for partition in range(SOURCES):
        pipe(
            driver,
            [row(10, key=1), row(20, key=2), row(30, key=2), row(40, key=3), row(50, key=3), row(999)],
            partition,
        )
    assert sorted((r["k"], r["n"], r["start"]) for r in driver.rows("highest")) == [(2, 4, 0), (3, 4, 0)]
    driver.close()


def test_a_row_without_event_time_goes_to_the_dead_letters():
    driver = running()
    pipe(driver, [{"k": 1, "v": 2, "t": None}, row(10), row(999)])
    pipe(driver, [row(999)], partition=1)
    assert counts(driver) == [(1, 0, 100, 1)]
    (letter,) = driver.output("app.dead-letter")
    assert b"event time is null" in bytes(str(letter), "utf8")
    driver.close()


def stream(seed):
    """Rows of both partitions, a little out of order, and what their windows are."""
    chance = random.Random(seed)
    rows = [[row(max(0, n * 7 - chance.randrange(10)), key=chance.randrange(5)) for n in range(200)] for _ in range(2)]
    expected = Counter((each["k"], each["t"] // 100 * 100) for part in rows for each in part)
    return rows, expected


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("harm", ["nothing", "crash", "crash, stores lost", "restart", "scale"])
def test_results_are_the_same_whatever_happens_to_replicas(seed, harm):
    chance = random.Random(seed)
    rows, expected = stream(seed)
    driver = running(replicas={"source": 1, "count": 2, "highest": 1})
    done = [0, 0]
    while min(done) < 200:
        partition = chance.randrange(2)
        end = min(200, done[partition] + chance.randrange(1, 40))
        driver.pipe("in", rows[partition][done[partition] : end], partition=partition)
        done[partition] = end
        for _ in range(chance.randrange(4)):
            driver.run_once()
        driver.advance_time(chance.randrange(200))
        stage = chance.choice(["source", "count", "highest"])
        if chance.random() < 0.3:
            match harm:
                case "crash":
                    driver.crash(stage)
                case "crash, stores lost":
                    driver.crash(stage, lose_stores=True)
                case "restart":
                    driver.restart(stage)
                case "scale":
                    driver.scale("count", chance.randrange(1, 4))
    for partition in range(2):
        driver.pipe("in", [row(100_000, key=9)], partition=partition)
    settle(driver)
    found = Counter({(r["k"], r["window_start"]): r["n"] for r in driver.rows("counts")})
    assert len(driver.rows("counts")) == len(found)
    assert found == expected
    best = {}
    for (key, start), n in expected.items():
        best.setdefault(start, {}).setdefault(n, set()).add(key)
    wanted = sorted((key, start, n) for start, by_n in best.items() for n in [max(by_n)] for key in by_n[n])
    assert sorted((r["k"], r["start"], r["n"]) for r in driver.rows("highest")) == wanted
    driver.close()
