"""Patterns in running stages: when matches come, and that crashes and other numbers of replicas change nothing."""

from __future__ import annotations

import random

import polars as pl
import pytest

from tests.harness.patterns import LETTERS, Described, Row, Step
from towpath.query import Query
from towpath.testing import StageDriver

SCHEMA = {"k": pl.Int64, "t": pl.Int64, "letter": pl.String, "number": pl.Int64}
SOURCES = 2
LAG_MS = 40
KEYS = 6

PATTERN = Described(
    (Step("begin", "a", 2), Step("not_followed_by", "d"), Step("followed_by", "bc"), Step("not_followed_by", "d")), 300
)
STRICT = Described(
    (Step("begin", "ab"), Step("next", "c"), Step("not_next", "d"), Step("followed_by", "a")), 400, skip=True
)


def searched(pattern, partitions=4):
    query = Query("app", partitions=partitions)
    rows = query.source("in", schema=SCHEMA, event_time="t", lag_ms=LAG_MS)
    found = (
        rows.key_by("k")
        .stage("detect")
        .match(pattern.written(), on="t", after_match=pattern.after_match, **pattern.measures())
    )
    found.sink("found", key="k")
    return query


def running(pattern=PATTERN, **how):
    return StageDriver(searched(pattern), partitions={"in": SOURCES}, **how)


def row(time, letter, number=0, key=1):
    return {"k": key, "t": time, "letter": letter, "number": number}


def settle(driver):
    for _ in range(4):
        driver.run_until_idle()
        driver.advance_time(150)
    driver.run_until_idle()


def pipe(driver, rows, partition=0):
    driver.pipe("in", rows, partition=partition)
    settle(driver)


def found_by(driver):
    """Key → its matches in their order."""
    found = {}
    for each in driver.rows("found"):
        rows = tuple(tuple(each[name]) for name in each if name.endswith("_rows"))
        found.setdefault(each["k"], []).append((each["match_start"], each["match_end"], rows))
    return found


def expected_of(pattern, rows):
    """The same by brute force."""
    of_key = {}
    for each in rows:
        of_key.setdefault(each["k"], []).append(Row(each["t"], each["letter"], each["number"]))
    found = {key: list(map(tuple, pattern.search(sorted(each)))) for key, each in of_key.items()}
    return {key: each for key, each in found.items() if each}


def test_a_match_comes_when_every_partition_has_come_so_far():
    pair = Described((Step("begin", "a"), Step("followed_by", "b")), 1000)
    driver = running(pair)
    pipe(driver, [row(10, "a", 0)])
    pipe(driver, [row(20, "b", 1)], partition=1)
    pipe(driver, [row(500, "d")])
    assert found_by(driver) == {}
    pipe(driver, [row(20 + LAG_MS, "d")], partition=1)
    assert found_by(driver) == {}
    pipe(driver, [row(21 + LAG_MS, "d")], partition=1)
    assert found_by(driver) == {1: [(10, 20, ((0,), (1,)))]}
    driver.close()


def test_a_silence_is_found_though_no_row_of_the_key_comes_any_more():
    silence = Described((Step("begin", "a"), Step("not_followed_by", "b")), 100)
    driver = running(silence)
    for partition in range(SOURCES):
        pipe(driver, [row(10, "a", partition, key=partition), row(30, "b", key=0)], partition)
        pipe(driver, [row(110 + LAG_MS, "d", key=5)], partition)
    assert found_by(driver) == {1: [(10, 110, ((1,),))]}
    assert driver.state("detect", "match") == {}
    driver.close()


def test_late_rows_are_left_out_and_counted():
    pair = Described((Step("begin", "a"), Step("followed_by", "b")), 10_000)
    driver = running(pair)
    for partition in range(SOURCES):
        pipe(driver, [row(10, "a", 0), row(1000, "d")], partition)
    pipe(driver, [row(500, "b", 1), row(970, "b", 2)])
    for partition in range(SOURCES):
        pipe(driver, [row(5000, "d")], partition)
    assert found_by(driver) == {1: [(10, 970, ((0,), (2,)))] * 2}
    detect = driver.process("detect")
    labels = {"stage": "detect", "replica": detect.name}
    assert detect.metrics.registry.get_sample_value("towpath_late_rows_total", labels) == 1
    driver.close()


def stream(seed):
    """Rows of both partitions, out of order by less than the lag; no two of the same time."""
    chance = random.Random(seed)
    parts = []
    for partition in range(SOURCES):
        times = [number * 14 + partition for number in range(200)]
        times.sort(key=lambda time: time + chance.randrange(LAG_MS))
        parts.append(
            [
                row(time, chance.choice(LETTERS), number * 2 + partition, chance.randrange(KEYS))
                for number, time in enumerate(times)
            ]
        )
    return parts


@pytest.mark.parametrize("pattern", [PATTERN, STRICT], ids=["relaxed", "strict"])
@pytest.mark.parametrize("harm", ["nothing", "crash", "crash, stores lost", "restart", "scale"])
def test_results_are_the_same_whatever_happens_to_replicas(pattern, harm):
    chance = random.Random(harm)
    rows = stream(len(harm))
    driver = running(pattern, replicas={"source": 1, "detect": 2})
    done = [0] * SOURCES
    while min(done) < 200:
        partition = chance.randrange(SOURCES)
        end = min(200, done[partition] + chance.randrange(1, 40))
        driver.pipe("in", rows[partition][done[partition] : end], partition=partition)
        done[partition] = end
        for _ in range(chance.randrange(4)):
            driver.run_once()
        driver.advance_time(chance.randrange(200))
        stage = chance.choice(["source", "detect"])
        if chance.random() < 0.3:
            match harm:
                case "crash":
                    driver.crash(stage)
                case "crash, stores lost":
                    driver.crash(stage, lose_stores=True)
                case "restart":
                    driver.restart(stage)
                case "scale":
                    driver.scale("detect", chance.randrange(1, 4))
    for partition in range(SOURCES):
        driver.pipe("in", [row(100_000, "d", key=KEYS)], partition=partition)
    settle(driver)
    expected = expected_of(pattern, [each for part in rows for each in part])
    assert sum(map(len, expected.values())) > 5
    assert found_by(driver) == expected
    assert driver.state("detect", "match") == driver.changelog_state("detect", "match")
    assert driver.state("detect", "match").keys() == {str(KEYS).encode()}
    driver.close()
