"""Rows that wait for long, in running stages: crashes lose and double none, and an append costs what a row costs."""

from __future__ import annotations

import random

import polars as pl
import pytest

from statemgr.layout import PROGRESS_KEY, changelog_topic
from statemgr.lists import CHUNK_ROWS
from tests.unit.towpath.stage.event_times import settle
from towpath.query import Query
from towpath.testing import StageDriver
from towpath.testing.records import read_records

PEOPLE = {"id": pl.Int64, "name": pl.String}
SALES = {"seller": pl.Int64, "sale": pl.Int64}
SELLERS = 6
SALES_EACH = 60
HARMS = ["nothing", "crash", "crash, stores lost", "restart", "scale"]


def enriching() -> Query:
    """Sales with the seller's name."""
    query = Query("app", partitions=4)
    people = query.source("people", schema=PEOPLE, stage="people").key_by("id")
    sales = query.source("sales", schema=SALES, stage="sales").key_by("seller")
    sales.stage("join").enrich(people, columns=["name"]).sink("out", key="seller")
    return query


def running(**replicas: int) -> StageDriver:
    return StageDriver(enriching(), partitions={"people": 1, "sales": 1}, replicas=replicas)


def strike(driver: StageDriver, harm: str, chance: random.Random) -> None:
    match harm:
        case "crash":
            driver.crash("join")
        case "crash, stores lost":
            driver.crash("join", lose_stores=True)
        case "restart":
            driver.restart("join")
        case "scale":
            driver.scale("join", chance.randrange(1, 4))


@pytest.mark.parametrize("harm", HARMS)
def test_every_sale_gets_its_name_once_and_in_order(harm: str) -> None:
    chance = random.Random(harm)
    driver = running(join=2)
    sales = [{"seller": chance.randrange(SELLERS), "sale": number} for number in range(SELLERS * SALES_EACH)]
    done = 0
    while done < len(sales):
        step = chance.randrange(1, 12)
        driver.pipe("sales", sales[done : done + step])
        done += step
        for _ in range(chance.randrange(4)):
            driver.run_once()
        if chance.random() < 0.15:
            strike(driver, harm, chance)
    settle(driver)
    by_seller: dict[int, list[int]] = {}
    for sale in sales:
        by_seller.setdefault(sale["seller"], []).append(sale["sale"])
    kept = driver.state("join", "enrich")
    waiting = {int(key): [row[1] for row in value.rows] for key, value in kept.items()}
    assert waiting == by_seller
    assert driver.changelog_state("join", "enrich") == kept
    for seller in range(SELLERS - 1):
        driver.pipe("people", [{"id": seller, "name": f"seller {seller}"}])
        driver.run_once()
        strike(driver, harm, chance)
    settle(driver)
    out: dict[int, list[int]] = {}
    for row in driver.rows("out"):
        out.setdefault(row["seller"], []).append(row["sale"])
        assert row["name"] == f"seller {row['seller']}"
    del by_seller[SELLERS - 1]
    assert out == by_seller
    kept = driver.state("join", "enrich")
    assert {int(key): len(value.rows) for key, value in kept.items()} == {
        **dict.fromkeys(range(SELLERS - 1), 1),
        SELLERS - 1: len(waiting[SELLERS - 1]),
    }
    assert driver.changelog_state("join", "enrich") == kept
    driver.close()


def changelog_of(sales: int) -> tuple[int, int]:
    """Records and bytes in the changelog after so many rows of one key, each of which was committed by itself."""
    driver = running()
    for number in range(sales):
        driver.pipe("sales", [{"seller": 7, "sale": number}])
        driver.run_until_idle()
    found = [
        record
        for record in read_records(driver.kafka, changelog_topic("app", "join"), None)
        if record.key not in (None, PROGRESS_KEY)
    ]
    driver.close()
    return len(found), sum(len(record.key or b"") + len(record.value or b"") for record in found)


def test_the_changelog_grows_by_as_much_for_each_row_that_waits() -> None:
    (few_records, few_bytes), (records, size) = changelog_of(80), changelog_of(160)
    assert records == 2 * few_records == 160 + 160 // CHUNK_ROWS
    assert size < 2.1 * few_bytes
