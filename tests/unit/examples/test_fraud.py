"""The fraud example: what was planted is found, once, whatever happens to the stage that looks for it."""

from __future__ import annotations

import random

import pytest

from examples.fraud import query
from examples.fraud.transactions import END_MS, events, expected_alerts, story_of
from towpath.query import load_query
from towpath.testing import StageDriver

CARDS = 40
PARTITIONS = 4


def alerts_of(driver):
    """By card and time, and without what the sink adds."""
    return sorted(driver.rows(query.ALERTS), key=lambda alert: (alert["card"], alert["match_start"]))


def settle(driver):
    for _ in range(4):
        driver.run_until_idle()
        driver.advance_time(150)
    driver.run_until_idle()


def end(driver):
    for partition in range(PARTITIONS):
        driver.pipe(query.TOPIC, [{"card": -1, "time": END_MS, "kind": "end", "cents": 0}], partition=partition)
    settle(driver)


def test_the_search_in_plain_python_finds_what_was_planted_and_nothing_else():
    alerts = expected_alerts(events(cards=CARDS))
    assert [alert["card"] for alert in alerts] == [card for card in range(CARDS) if story_of(card) == "fraud"]
    assert all(len(alert["probes"]) == 3 and alert["charge"] >= 72_000 for alert in alerts)
    assert events(cards=CARDS) == events(cards=CARDS)


def test_it_is_found_by_its_name():
    assert load_query("examples.fraud.query").names == ["source", "detect"]


def test_an_alert_comes_when_a_minute_has_passed_without_a_word_from_the_holder():
    driver = StageDriver(query.build(), partitions={query.TOPIC: 1})
    story = [(0, "payment", 10), (1, "payment", 10), (2, "payment", 10), (3, "payment", 60_000), (59_000, "end", 0)]
    driver.pipe(query.TOPIC, [{"card": 7, "time": at, "kind": kind, "cents": cents} for at, kind, cents in story])
    settle(driver)
    assert alerts_of(driver) == []
    driver.pipe(query.TOPIC, [{"card": 8, "time": 60_000 + query.LAG_MS, "kind": "end", "cents": 0}])
    settle(driver)
    (alert,) = alerts_of(driver)
    assert (alert["card"], alert["match_start"], alert["match_end"], alert["charged_ms"]) == (7, 0, 60_000, 3)
    driver.close()


@pytest.mark.parametrize("harm", ["nothing", "rescale", "crash"])
def test_alerts_are_those_of_a_search_over_all_events(harm):
    chance, given = random.Random(harm), events(seed=3, cards=CARDS)
    driver = StageDriver(query.build(partitions=4), partitions={query.TOPIC: PARTITIONS})
    for begin in range(0, len(given), 100):
        for event in given[begin : begin + 100]:
            driver.pipe(query.TOPIC, [event], partition=event["card"] % PARTITIONS)
        for _ in range(chance.randrange(6)):
            driver.run_once()
        driver.advance_time(chance.randrange(200))
        if harm == "rescale" and begin % 300 == 0:
            driver.run_until_idle()
            driver.scale("detect", 1 + (begin // 300) % 2)
        elif harm == "crash":
            driver.crash("detect", lose_stores=chance.random() < 0.5)
    end(driver)
    assert alerts_of(driver) == expected_alerts(given)
    driver.close()
