"""State that goes away, distinct rows, and timers of user code in running stages: crashes change nothing."""

from __future__ import annotations

import random

import polars as pl
import pytest

from tests.unit.towpath.stage.event_times import Harmed, end, settle
from towpath.query import Query, agg, every
from towpath.testing import StageDriver

SCHEMA = {"k": pl.Int64, "v": pl.Int64, "t": pl.Int64, "id": pl.Int64}
HARMS = ["nothing", "crash", "crash, stores lost", "restart", "scale"]
PAUSE_MS = 500
END = {"k": 9, "v": -1, "t": 1_000_000, "id": -1}


def query(step):
    found = Query("app", partitions=4)
    rows = found.source("in", schema=SCHEMA, event_time="t", lag_ms=20)
    step(rows.key_by("k").stage("keyed")).sink("out", key="k")
    return found


def bursts(seed):
    """Rows in bursts with pauses between, a key in every fourth burst of its partition, so that its order is one."""
    chance = random.Random(seed)
    rows = [[], []]
    for part in range(2):
        now = 1000
        for n in range(240):
            now += PAUSE_MS if n % 20 == 19 else 5
            key = n // 20 % 4 * 2 + part
            rows[part].append({"k": key, "v": chance.randrange(4), "t": now - chance.randrange(10), "id": n})
    return rows


def driven(step, harm, seed):
    rows = bursts(seed)
    harmed = Harmed(query(step), harm, seed, {"source": 1, "keyed": 2})
    harmed.pipe_all(rows)
    end(harmed.driver, END)
    return rows, [row for row in harmed.driver.rows("out") if row["k"] != END["k"]], harmed.driver


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("harm", HARMS)
def test_a_count_begins_anew_after_a_pause_unless_event_time_stood_still(harm, seed):
    lives = {"n": agg.count(), "first": agg.min("id")}
    rows, out, driver = driven(lambda keyed: keyed.aggregate(ttl_ms=100, **lives), harm, seed)
    total = {}
    for row in (row for part in rows for row in part):
        total[row["k"]] = total.get(row["k"], 0) + 1
    last = {(row["k"], row["first"]): row["n"] for row in out}
    assert len(last) > len(total)
    assert {key: sum(n for (each, _), n in last.items() if each == key) for key in total} == total
    assert driver.state("keyed", "aggregate").keys() == {b"9"}
    driver.close()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("harm", HARMS)
def test_distinct_rows_come_out_once(harm, seed):
    rows, out, driver = driven(lambda keyed: keyed.distinct("v"), harm, seed)
    first = {}
    for row in (row for part in rows for row in part):
        first.setdefault((row["k"], row["v"]), row)
    assert {(row["k"], row["v"]): {name: row[name] for name in SCHEMA} for row in out} == first
    assert len(out) == len(first)
    assert b"[9,-1]" in driver.state("keyed", "distinct")
    driver.close()


@pytest.mark.parametrize("harm", HARMS)
def test_what_was_seen_is_forgotten_after_its_time(harm):
    _, out, driver = driven(lambda keyed: keyed.distinct("v", ttl_ms=100), harm, 1)
    assert len(out) > len({(row["k"], row["v"]) for row in out})
    assert driver.state("keyed", "distinct").keys() == {b"[9,-1]"}
    driver.close()


@pytest.mark.parametrize("harm", HARMS)
def test_windows_of_rows_are_the_same_whatever_happens(harm):
    rows, out, driver = driven(lambda keyed: keyed.window(every(5, over=10)).aggregate(total=agg.sum("v")), harm, 2)
    values = {}
    for row in (row for part in rows for row in part):
        values.setdefault(row["k"], []).append(row["v"])
    totals = {}
    for row in out:
        totals.setdefault(row["k"], []).append(row["total"])
    assert totals == {
        key: [sum(each[stop - 10 : stop]) for stop in range(10, len(each) + 1, 5)] for key, each in values.items()
    }
    driver.close()


def count(row, state, timers):
    state.set(state.get(0) + 1)
    for time in timers.times:
        timers.cancel(time)
    timers.set(row["t"] + 100)
    return []


def tell(key, time_ms, state, timers):
    n = state.get()
    state.delete()
    return [{"k": key["k"], "at": time_ms, "n": n}]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("harm", HARMS)
def test_timers_of_user_code_go_off_once_each(harm, seed):
    columns = {"k": pl.Int64, "at": pl.Int64, "n": pl.Int64}
    rows, out, driver = driven(lambda keyed: keyed.process(count, schema=columns, on_timer=tell), harm, seed)
    total = {}
    for row in (row for part in rows for row in part):
        total[row["k"]] = total.get(row["k"], 0) + 1
    told = {}
    for row in out:
        told[row["k"]] = told.get(row["k"], 0) + row["n"]
    assert told == total
    assert len({(row["k"], row["at"]) for row in out}) == len(out)
    assert driver.state("keyed", "count").keys() == {b"9"}
    driver.close()


def test_a_row_waits_again_when_the_row_of_the_table_has_gone():
    found = Query("app", partitions=2)
    columns = {"id": pl.Int64, "name": pl.String, "at": pl.Int64}
    people = found.source("people", schema=columns, event_time="at", lag_ms=0, stage="people")
    columns = {"seller": pl.Int64, "item": pl.String, "t": pl.Int64}
    sales = found.source("sales", schema=columns, event_time="t", lag_ms=0, stage="sales")
    joined = sales.key_by("seller").stage("join").enrich(people.key_by("id"), columns=["name"], ttl_ms=100)
    joined.sink("out", key="seller")
    driver = StageDriver(found, partitions={"people": 1, "sales": 1})
    for topic, row in [
        ("people", {"id": 1, "name": "Ann", "at": 1000}),
        ("sales", {"seller": 1, "item": "a", "t": 1090}),
        ("sales", {"seller": 1, "item": "b", "t": 1180}),
        ("people", {"id": 2, "name": "Bob", "at": 2000}),
        ("sales", {"seller": 3, "item": "c", "t": 2000}),
        ("sales", {"seller": 1, "item": "d", "t": 2010}),
        ("people", {"id": 1, "name": "Eve", "at": 2020}),
    ]:
        driver.pipe(topic, [row])
        settle(driver)
    rows = [(row["seller"], row["item"], row["name"], row["t"]) for row in driver.rows("out")]
    assert rows == [(1, "a", "Ann", 1090), (1, "b", "Ann", 1180), (1, "d", "Eve", 2010)]
    driver.close()
