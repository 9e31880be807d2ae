"""Joins by event time in running stages: pairs are those of all rows, whatever crashes."""

from __future__ import annotations

import random

import polars as pl
import pytest

from towpath.query import Query, tumbling
from towpath.testing import StageDriver

SOURCES = 2
LOWER_MS, UPPER_MS = -20, 50
WINDOW_MS = 50
ORDERS = {"order": pl.Int64, "customer": pl.Int64, "t": pl.Int64}
PAYMENTS = {"payment": pl.Int64, "by": pl.Int64, "at": pl.Int64}
END_MS = 10**6


def joined() -> Query:
    """Orders with the payments of the same customer soon after, or just before."""
    query = Query("app", partitions=4)
    orders = query.source("orders", schema=ORDERS, event_time="t", lag_ms=10).key_by("customer")
    payments = query.source("payments", schema=PAYMENTS, event_time="at", lag_ms=10, stage="payments").key_by("by")
    pairs = orders.stage("pairs").join(payments, on=("t", "at"), within=(LOWER_MS, UPPER_MS), columns=("payment", "at"))
    pairs.sink("pairs", key="customer")
    return query


def joined_in_windows() -> Query:
    """Orders with the payments of the same customer in the same 50 ms, and those without one."""
    query = Query("app", partitions=4)
    orders = query.source("orders", schema=ORDERS, event_time="t", lag_ms=10).key_by("customer")
    payments = query.source("payments", schema=PAYMENTS, event_time="at", lag_ms=10, stage="payments").key_by("by")
    ours = orders.stage("pairs").window(tumbling(WINDOW_MS), on="t")
    pairs = ours.join(payments.window(tumbling(WINDOW_MS), on="at"), columns=("payment", "at"), how="left")
    pairs.sink("pairs", key="customer")
    return query


def running(query: Query) -> StageDriver:
    return StageDriver(query, partitions={"orders": SOURCES, "payments": SOURCES})


def settle(driver: StageDriver) -> None:
    for _ in range(4):
        driver.run_until_idle()
        driver.advance_time(150)
    driver.run_until_idle()


def finish(driver: StageDriver) -> None:
    """Let event time come to its end everywhere."""
    for partition in range(SOURCES):
        driver.pipe("orders", [{"order": -1, "customer": -1, "t": END_MS}], partition=partition)
        driver.pipe("payments", [{"payment": -1, "by": -2, "at": END_MS}], partition=partition)
    settle(driver)


Row = dict[str, int]


def fed(driver: StageDriver, seed: int) -> tuple[list[Row], list[Row]]:
    """Orders and payments that were piped while replicas crashed and changed in number."""
    chance = random.Random(seed)
    orders, payments = [], []
    for number in range(60):
        time = number * 10
        order = {"order": number, "customer": chance.randrange(5), "t": time + chance.randrange(8)}
        payment = {"payment": number, "by": chance.randrange(5), "at": time + chance.randrange(8)}
        orders.append(order)
        payments.append(payment)
        driver.pipe("orders", [order], partition=number % SOURCES)
        driver.pipe("payments", [payment], partition=number % SOURCES)
        if chance.random() < 0.1:
            driver.crash("pairs", lose_stores=chance.random() < 0.5)
        if chance.random() < 0.1:
            driver.scale("pairs", chance.randrange(1, 4))
        if chance.random() < 0.5:
            settle(driver)
    finish(driver)
    return orders, payments


@pytest.mark.parametrize("seed", range(6))
def test_pairs_are_those_of_all_rows_whatever_crashes(seed: int) -> None:
    driver = running(joined())
    orders, payments = fed(driver, seed)
    found = sorted((row["order"], row["payment"]) for row in driver.rows("pairs"))
    assert found == sorted(
        (order["order"], payment["payment"])
        for order in orders
        for payment in payments
        if payment["by"] == order["customer"] and LOWER_MS <= payment["at"] - order["t"] <= UPPER_MS
    )
    kept = driver.state("pairs", "join")
    assert set(kept) == {b"-1", b"-2"}
    driver.close()


@pytest.mark.parametrize("seed", range(6))
def test_pairs_of_windows_are_those_of_all_rows_whatever_crashes(seed: int) -> None:
    driver = running(joined_in_windows())
    orders, payments = fed(driver, seed)
    expected = []
    for order in orders:
        partners = [
            payment["payment"]
            for payment in payments
            if payment["by"] == order["customer"] and payment["at"] // WINDOW_MS == order["t"] // WINDOW_MS
        ]
        expected += [(order["order"], payment) for payment in partners or [None]]
    found = [(row["order"], row["payment"]) for row in driver.rows("pairs")]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert set(driver.state("pairs", "join")) == {f"[{key},{END_MS + WINDOW_MS}]".encode() for key in (-1, -2)}
    driver.close()


def test_a_pair_tells_when_the_later_of_its_rows_was_to_be_emitted() -> None:
    query = Query("app", partitions=1)
    timed = {"emit_time": "sched_ms", "event_time": "t", "lag_ms": 0}
    left = query.source("left", schema={"k": pl.Int64, "t": pl.Int64}, **timed).key_by("k")
    right = query.source("right", schema={"k": pl.Int64, "t": pl.Int64, "v": pl.Int64}, stage="other", **timed)
    left.stage("pairs").join(right.key_by("k"), on="t", within=(0, 9), columns=["v"]).sink("pairs")
    driver = StageDriver(query, partitions={"left": 1, "right": 1})
    driver.pipe("left", [{"k": 1, "t": 5, "sched_ms": 100}])
    settle(driver)
    driver.pipe("right", [{"k": 1, "t": 7, "v": 3, "sched_ms": 170}])
    settle(driver)
    (row,) = driver.rows("pairs")
    assert (row["k"], row["v"], row["sched_ms"]) == (1, 3, 170)
    driver.close()
