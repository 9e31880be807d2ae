"""The queries: on rows whose results can be read off, and on generated events against plain Python."""

import json
from collections import Counter
from decimal import Decimal

import numpy as np
import polars as pl
import pytest

from nexmark import EVENT_SCHEMA, GeneratorConfig, generate_json
from queries import key_count, map_map, q0, q1, q2, q22
from queries.nexmark_schema import EVENT
from towpath.query.plan import SCHED
from towpath.testing import StageDriver

TOPIC = "nexmark-events"
PERSON = {"type": "person", "eid": 0, "date_time": 1000, "id": 1000, "name": "Luke Abrams", "extra": "", "sched_ms": 5}
AUCTION = {"type": "auction", "eid": 1, "date_time": 1000, "id": 1000, "seller": 1000, "extra": "", "sched_ms": 5}


def bid(**fields):
    common = {"type": "bid", "eid": 4, "date_time": 1000, "auction": 1000, "bidder": 1001, "price": 100}
    return {**common, "channel": "Apple", "url": "", "extra": "x", "sched_ms": 5, **fields}


def run(query, sink, *batches):
    """The sink's rows after these batches of input."""
    driver = StageDriver(query)
    for batch in batches:
        driver.pipe(TOPIC, batch)
        driver.run_until_idle()
    rows = driver.rows(sink)
    driver.close()
    return rows


@pytest.fixture(scope="module")
def generated():
    """5,000 generated events as lines, and the bids among them as dicts."""
    lines = generate_json(GeneratorConfig(seed=42), 0, 5_000, sched_ms=np.arange(5_000)).to_pylist()
    parsed = [json.loads(line) for line in lines]
    return lines, [event for event in parsed if event["type"] == "bid"]


def as_multiset(rows):
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


def test_the_schema_is_that_of_the_event_model():
    assert set(EVENT) == set(EVENT_SCHEMA.names)
    empty = pl.from_arrow(EVENT_SCHEMA.empty_table())
    assert {name: empty.schema[name] == dtype for name, dtype in EVENT.items()} == dict.fromkeys(EVENT, True)


def test_q0_passes_bids_and_only_bids():
    assert run(q0.build(), "q0", [PERSON, bid(), AUCTION]) == [
        {"auction": 1000, "bidder": 1001, "price": 100, "date_time": 1000, "extra": "x", "sched_ms": 5}
    ]


@pytest.mark.parametrize(
    ("cents", "euro_cents"),
    [(100, "90.800"), (12345, "11209.260"), (1, "0.908"), (99999999, "90799999.092"), (250, "227.000")],
)
def test_q1_converts_prices_exactly(cents, euro_cents):
    (stage,) = q1.build().plan().stages
    frame = pl.DataFrame([bid(price=cents)], schema={**EVENT, "__partition": pl.Int32})
    for operator in stage.operators:
        frame = operator.make().process(frame, None)
    assert frame.get_column("price").to_list() == [Decimal(euro_cents)]


def test_q1_writes_prices_as_numbers():
    (row,) = run(q1.build(), "q1", [bid(price=12345)])
    assert row["price"] == 11209.26
    assert list(row) == ["auction", "bidder", "price", "date_time", "extra", "sched_ms"]


def test_q2_selects_every_123rd_auction():
    pairs = [(1000, 10), (1107, 20), (1020, 30), (1230, 40), (2091, 50), (2019, 60), (984, 70), (1107, 80)]
    rows = run(q2.build(), "q2", [bid(auction=auction, price=price) for auction, price in pairs])
    assert {(row["auction"], row["price"]) for row in rows} == {pairs[n] for n in (1, 3, 4, 6, 7)}


@pytest.mark.parametrize(
    ("url", "directories"),
    [
        ("https://www.nexmark.com/abc/d_e/fgh/item.htm?query=1", ("abc", "d_e", "fgh")),
        ("https://www.nexmark.com/abc", ("abc", None, None)),
        (None, (None, None, None)),
    ],
)
def test_q22_splits_the_url(url, directories):
    (row,) = run(q22.build(), "q22", [bid(url=url)])
    assert (row["dir1"], row["dir2"], row["dir3"]) == directories


@pytest.mark.parametrize(("price", "band"), [(9_999, 0), (10_000, 1), (999_999, 1), (1_000_000, 2)])
def test_map_map_converts_and_sorts_into_bands(price, band):
    assert run(map_map.build(), "map-map", [bid(price=price), PERSON]) == [
        {
            "auction": 1000,
            "bidder": 1001,
            "price": price,
            "price_milli": price * 908,
            "price_band": band,
            "date_time": 1000,
            "sched_ms": 5,
        }
    ]


def test_key_count_counts_the_bids_of_each_auction():
    rows = run(
        key_count.build(), "key-count", [bid(auction=7), bid(auction=9), PERSON, bid(auction=7)], [bid(auction=7)]
    )
    assert {row["auction"]: row["count"] for row in rows} == {7: 3, 9: 1}
    assert list(rows[0]) == ["auction", "count", "sched_ms", "sched_newest_ms", "events"]


@pytest.mark.parametrize(
    ("build", "sink", "expected"),
    [
        (q0.build, "q0", lambda b: {k: b[k] for k in ("auction", "bidder", "price", "date_time", "extra", "sched_ms")}),
        (
            q22.build,
            "q22",
            lambda b: (
                {k: b[k] for k in ("auction", "bidder", "price", "channel", "sched_ms")}
                | {f"dir{n}": b["url"].split("/")[2 + n] for n in (1, 2, 3)}
            ),
        ),
    ],
)
def test_generated_events_give_what_plain_python_gives(generated, build, sink, expected):
    lines, bids = generated
    assert as_multiset(run(build(), sink, lines)) == as_multiset(map(expected, bids))


def test_every_output_of_key_count_can_be_checked_when_each_bid_gives_one(generated):
    lines, bids = generated
    rows = run(key_count.build(emit="each", partitions=3), "key-count", lines[:2_000], lines[2_000:])
    totals = Counter(event["auction"] for event in bids)
    assert Counter((row["auction"], row["count"]) for row in rows) == Counter(
        (auction, number) for auction, total in totals.items() for number in range(1, total + 1)
    )
    assert sorted(row["sched_ms"] for row in rows) == sorted(event["sched_ms"] for event in bids)


@pytest.mark.parametrize("module", [key_count, map_map, q0, q1, q2, q22])
def test_every_query_says_what_it_does_and_carries_the_emit_time(module):
    assert module.__doc__
    plan = module.query.plan()
    assert plan.description
    assert plan.stages[0].inputs[0].emit_time == "sched_ms"
    assert SCHED == "__sched_ms"
