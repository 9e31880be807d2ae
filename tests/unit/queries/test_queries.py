"""The queries: on rows whose results can be read off, and on generated events against plain Python."""

import json
from collections import Counter
from decimal import Decimal

import numpy as np
import polars as pl
import pytest

from nexmark import EVENT_SCHEMA, GeneratorConfig, generate_json
from queries import (
    key_count,
    map_map,
    q0,
    q1,
    q2,
    q3,
    q4,
    q5,
    q6,
    q7,
    q8,
    q9,
    q10,
    q11,
    q12,
    q13,
    q14,
    q15,
    q16,
    q17,
    q18,
    q19,
    q20,
    q21,
    q22,
)
from queries.nexmark_schema import EVENT
from tests.harness.files import markers_in
from towpath.query.plan import SCHED
from towpath.testing import StageDriver

TOPIC = "nexmark-events"
PERSON = {"type": "person", "eid": 0, "date_time": 1000, "id": 1000, "name": "Luke Abrams", "extra": "", "sched_ms": 5}
AUCTION = {"type": "auction", "eid": 1, "date_time": 1000, "id": 1000, "seller": 1000, "extra": "", "sched_ms": 5}


def bid(**fields):
    common = {"type": "bid", "eid": 4, "date_time": 1000, "auction": 1000, "bidder": 1001, "price": 100}
    return {**common, "channel": "Apple", "url": "", "extra": "x", "sched_ms": 5, **fields}


END = {"type": "end", "date_time": 10**12}
"""Nothing that happened, later than all windows."""


def run(query, sink, *batches, end=False):
    """The sink's rows after these batches of input; ``end``: and after event time has come to the end."""
    driver = StageDriver(query)
    for batch in batches:
        driver.pipe(TOPIC, batch)
        driver.run_until_idle()
    for _ in range(5 if end else 0):  # from stage to stage
        driver.pipe(TOPIC, [END] * 16)
        driver.run_until_idle()
        driver.advance_time(200)
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


def person(number, name, city, state):
    return {
        "type": "person",
        "id": number,
        "name": name,
        "city": city,
        "state": state,
        "date_time": 1000,
        "sched_ms": 5,
    }


def auction(number, seller, category, **fields):
    common = {"type": "auction", "id": number, "seller": seller, "category": category, "date_time": 1000, "sched_ms": 5}
    return {**common, **fields}


SUGGESTIONS = [
    person(1000, "Ann", "Boise", "ID"),
    auction(1, 1000, 10),
    auction(2, 1001, 10),
    auction(3, 1000, 11),
    person(1001, "Bob", "Seattle", "WA"),
    auction(4, 1002, 10),
    auction(5, 1002, 10),
    person(1002, "Cyd", "Bend", "OR"),
    auction(6, 1002, 10),
    person(1003, "Dee", "Kent", "CA"),
]


@pytest.mark.parametrize("split", range(len(SUGGESTIONS) + 1))
def test_q3_joins_auctions_with_their_sellers_whichever_comes_first(split):
    rows = run(q3.build(), "q3", SUGGESTIONS[:split], SUGGESTIONS[split:])
    assert sorted((row["name"], row["city"], row["state"], row["id"]) for row in rows) == [
        ("Ann", "Boise", "ID", 1),
        ("Cyd", "Bend", "OR", 4),
        ("Cyd", "Bend", "OR", 5),
        ("Cyd", "Bend", "OR", 6),
    ]


BOTH = [
    bid(auction=7, price=1, date_time=900, extra="of the bid"),
    auction(7, 1000, 10, item_name="vase", extra="of the auction", expires=5000, date_time=950),
    auction(8, 1000, 11, item_name="lamp"),
    bid(auction=7, price=2),
    bid(auction=8, price=3),
    bid(auction=9, price=4),
]


@pytest.mark.parametrize("split", range(len(BOTH) + 1))
def test_q20_expands_bids_even_those_that_come_before_their_auction(split):
    rows = run(q20.build(), "q20", BOTH[:split], BOTH[split:])
    by_price = {row["price"]: row for row in rows}
    assert sorted(by_price) == [1, 2]
    first = by_price[1]
    assert (first["bid_date_time"], first["bid_extra"], first["item_name"]) == (900, "of the bid", "vase")
    assert (first["auction_date_time"], first["auction_extra"], first["expires"]) == (950, "of the auction", 5000)


def test_q13_joins_the_side_input():
    (row,) = run(q13.build(), "q13", [bid(auction=12345)])
    assert row["value"] == "2345"


@pytest.mark.parametrize(
    ("price", "hour", "converted", "time_of_day"),
    [
        (1101322, 7, 1000000.376, "otherTime"),
        (1101321, 7, None, None),
        (55066079, 12, 49999999.732, "dayTime"),
        (55066080, 12, None, None),
        (2000000, 6, 1816000.0, "nightTime"),
        (2000000, 8, 1816000.0, "dayTime"),
        (2000000, 18, 1816000.0, "dayTime"),
        (2000000, 19, 1816000.0, "otherTime"),
        (2000000, 20, 1816000.0, "nightTime"),
    ],
)
def test_q14_calculates(price, hour, converted, time_of_day):
    event = bid(price=price, date_time=1_436_918_400_000 + hour * 3_600_000, extra="cab ccc")
    rows = run(q14.build(), "q14", [event])
    assert [(row["price"], row["bid_time_type"], row["c_counts"]) for row in rows] == (
        [] if converted is None else [(converted, time_of_day, 4)]
    )


STATISTICS = [(1000, 1, 50), (1000, 2, 9999), (1000, 1, 10000), (1001, 1, 999999), (1001, 3, 1000000), (1000, 1, 20)]
"""Auction, bidder and price of some bids."""


def statistics():
    return [
        bid(auction=auction, bidder=bidder, price=price, eid=number, date_time=1_436_918_400_000 + number)
        for number, (auction, bidder, price) in enumerate(STATISTICS)
    ]


@pytest.mark.parametrize("split", range(len(STATISTICS) + 1))
def test_q15_counts_bids_bidders_and_auctions(split):
    *_, row = run(q15.build(), "q15", statistics()[:split], statistics()[split:])
    assert list(row.values())[:13] == ["2015-07-15", 6, 3, 2, 1, 3, 2, 1, 1, 2, 1, 2, 1]


@pytest.mark.parametrize("split", range(len(STATISTICS) + 1))
def test_q16_counts_by_channel(split):
    rows = run(q16.build(), "q16", statistics()[:split], statistics()[split:], [bid(channel="b", date_time=61_000)])
    last = {(row["channel"], row["day"]): list(row.values())[2:7] for row in rows}
    assert last == {("Apple", "2015-07-15"): ["00:00", 6, 3, 2, 1], ("b", "1970-01-01"): ["00:01", 1, 1, 0, 0]}


OPEN = [
    auction(1, 7, 10, date_time=0, expires=1000, reserve=150),
    bid(auction=1, date_time=100, price=100),
    auction(2, 8, 10, date_time=200, expires=1200, reserve=50),
    bid(auction=1, date_time=300, price=250),
    bid(auction=2, date_time=300, price=80),
    bid(auction=3, date_time=400, price=900),
    auction(3, 7, 11, date_time=500, expires=2000, reserve=100),
    auction(4, 9, 11, date_time=600, expires=700, reserve=10),
    bid(auction=3, date_time=900, price=90),
    bid(auction=1, date_time=1000, price=400),
    bid(auction=2, date_time=1100, price=80),
    bid(auction=1, date_time=1001, price=999),
    bid(auction=3, date_time=2000, price=300),
]


@pytest.mark.parametrize("split", range(len(OPEN) + 1))
def test_q4_averages_over_the_highest_bids_so_far(split):
    rows = run(q4.build(), "q4", OPEN[:split], OPEN[split:])
    assert {row["category"]: (row["sum"], row["count"], row["avg_final"]) for row in rows} == {
        10: (480, 2, 240),
        11: (300, 1, 300),
    }


def test_q4_shows_every_step_where_each_event_is_a_batch():
    rows = run(q4.build(), "q4", *([event] for event in OPEN))
    found = {category: [] for category in (10, 11)}
    for row in rows:
        found[row["category"]].append((row["sum"], row["count"], row["avg_final"]))
    assert list(dict.fromkeys(found[10])) == [(100, 1, 100), (250, 1, 250), (330, 2, 165), (480, 2, 240)]
    assert list(dict.fromkeys(found[11])) == [(90, 1, 90), (300, 1, 300)]


HOT = [
    (1, 1000),
    (1, 1500),
    (2, 2500),
    (2, 3000),
    (2, 9999),
    (3, 10000),
    (1, 10500),
    (3, 11000),
    (3, 11999),
    (2, 12000),
]


@pytest.mark.parametrize("split", range(len(HOT) + 1))
def test_q5_finds_the_auctions_with_the_most_bids(split):
    events = [bid(auction=auction, date_time=20_000 + time) for auction, time in HOT]
    rows = run(q5.build(), "q5", events[:split], events[split:], end=True)
    found = {}
    for row in rows:
        found.setdefault(row["window_start"] // 1000 - 20, set()).add((row["auction"], row["num"]))
        assert row["window_end"] == row["window_start"] + 10_000
    assert found == {
        -8: {(1, 2)},
        -6: {(1, 2), (2, 2)},
        -4: {(1, 2), (2, 2)},
        -2: {(1, 2), (2, 2)},
        0: {(2, 3)},
        2: {(2, 3), (3, 3)},
        **{start: {(3, 3)} for start in (4, 6, 8, 10)},
        12: {(2, 1)},
    }


def test_q7_finds_the_highest_bids():
    bids = [
        (1, 101, 500, 1000),
        (2, 102, 900, 2000),
        (3, 103, 900, 9999),
        (1, 101, 900, 10000),
        (2, 104, 300, 12000),
        (4, 105, 950, 15000),
        (5, 106, 100, 19999),
        (6, 107, 120, 23000),
    ]
    events = [bid(auction=auction, bidder=who, price=price, date_time=time) for auction, who, price, time in bids]
    rows = run(q7.build(), "q7", events, end=True)
    found = sorted((row["auction"], row["bidder"], row["price"], row["date_time"]) for row in rows)
    assert found == [(2, 102, 900, 2000), (3, 103, 900, 9999), (4, 105, 950, 15000), (6, 107, 120, 23000)]


def test_q8_finds_who_opens_an_auction_in_the_window_of_their_registration():
    events = [
        {**person(1000, "Ann", "", ""), "date_time": 1000},
        {**person(1001, "Bob", "", ""), "date_time": 4000},
        {**person(1002, "Cyd", "", ""), "date_time": 9999},
        auction(1, 1000, 10, date_time=2000),
        auction(2, 1000, 10, date_time=3000),
        auction(3, 1001, 10, date_time=10000),
        auction(4, 1002, 10, date_time=9000),
        auction(5, 1003, 10, date_time=11000),
        {**person(1003, "Dee", "", ""), "date_time": 12000},
        auction(6, 1003, 10, date_time=19999),
        auction(7, 1009, 10, date_time=5000),
    ]
    rows = run(q8.build(), "q8", events, end=True)
    assert sorted((row["id"], row["name"], row["starttime"]) for row in rows) == [
        (1000, "Ann", 0),
        (1002, "Cyd", 0),
        (1003, "Dee", 10_000),
    ]


def test_q10_writes_bids_to_files_by_day_and_minute(tmp_path):
    minute, base = 60_000, 1_436_918_400_000
    times = [base, base + minute - 1, base + minute, base + 24 * 60 * minute - 1]
    driver = StageDriver(q10.build(str(tmp_path / "out")), partitions={TOPIC: 1})

    def come(*events):
        driver.pipe(TOPIC, events)
        for _ in range(6):
            driver.run_until_idle()
            driver.advance_time(200)

    come(PERSON, *(bid(date_time=time, price=price) for price, time in enumerate(times[:3])))
    come(bid(date_time=base + 2 * minute + 3_999))
    assert markers_in(tmp_path / "out") == []
    come(bid(date_time=base + 2 * minute + 4_000))
    assert markers_in(tmp_path / "out") == ["dt=2015-07-15/hm=00%3A00"]
    come(bid(date_time=times[3], price=3), END | {"date_time": 2 * 10**12})
    found = pl.read_parquet(tmp_path / "out" / "**/*.parquet", hive_partitioning=True, try_parse_hive_dates=False)
    assert found.columns == ["auction", "bidder", "price", "date_time", "extra", "dt", "hm"]
    days = {("2015-07-15", name) for name in ("00:00", "00:01", "00:02", "23:59")}
    assert set(found.select("dt", "hm").rows()) == days
    placed = found.filter(pl.col("price") < len(times)).sort("price").select("date_time", "hm").rows()
    assert placed == list(zip(times, ("00:00", "00:00", "00:01", "23:59"), strict=True))
    assert len(markers_in(tmp_path / "out")) == len(days)
    driver.close()


PAUSES = [(1, 1000), (1, 5000), (2, 3000), (1, 15000), (1, 25001), (2, 12999), (2, 23000)]


@pytest.mark.parametrize("split", range(len(PAUSES) + 1))
def test_q11_counts_the_bids_of_sessions(split):
    events = [bid(bidder=bidder, date_time=time) for bidder, time in PAUSES]
    rows = run(q11.build(), "q11", events[:split], events[split:], end=True)
    assert sorted((row["bidder"], row["bid_count"], row["starttime"], row["endtime"]) for row in rows) == [
        (1, 1, 25001, 35001),
        (1, 3, 1000, 25000),
        (2, 1, 23000, 33000),
        (2, 2, 3000, 22999),
    ]


def test_q12_counts_bids_by_when_they_came():
    driver = StageDriver(q12.build())
    for count in (2, 3):
        driver.pipe(TOPIC, [bid(bidder=7)] * count + [bid(bidder=8)])
        driver.run_until_idle()
        driver.advance_time(10_000)
    for _ in range(3):
        driver.pipe(TOPIC, [END] * 16)
        driver.run_until_idle()
        driver.advance_time(10_000)
    driver.run_until_idle()
    rows = driver.rows("q12")
    driver.close()
    assert sorted((row["bidder"], row["bid_count"]) for row in rows) == [(7, 2), (7, 3), (8, 1), (8, 1)]
    assert all(row["endtime"] - row["starttime"] == 10_000 and row["starttime"] % 10_000 == 0 for row in rows)


@pytest.mark.parametrize("split", range(len(OPEN) + 1))
def test_q4_on_close_averages_over_the_auctions_that_ended(split):
    rows = run(q4.build("on_close"), "q4-on-close", OPEN[:split], OPEN[split:], end=True)
    assert {row["category"]: (row["sum"], row["count"], row["avg_final"]) for row in rows} == {
        10: (330, 2, 165),
        11: (90, 1, 90),
    }


@pytest.mark.parametrize("split", range(len(OPEN) + 1))
def test_q9_on_close_has_the_winner_of_each_auction_once(split):
    rows = run(q9.build("on_close"), "q9-on-close", OPEN[:split], OPEN[split:], end=True)
    assert sorted((row["id"], row["price"], row["bid_date_time"]) for row in rows) == [
        (1, 250, 300),
        (2, 80, 300),
        (3, 90, 900),
    ]


def test_q6_averages_over_the_last_auctions_of_a_seller_in_the_order_of_their_ends():
    closes = [
        (1000, 1, 7, 100, 500),
        (1200, 2, 8, 50, 900),
        (2000, 3, 7, 200, 1500),
        (2500, 4, 7, 401, 1400),
        (3000, 5, 8, 71, 2600),
        (3500, 6, 7, 30, 2900),
    ]
    events = [auction(number, seller, 10, date_time=0, expires=end, reserve=0) for end, number, seller, _, _ in closes]
    events += [bid(auction=number, price=price, date_time=time) for _, number, _, price, time in closes]
    rows = run(q6.build(), "q6", events, end=True)
    found = {}
    for row in rows:
        found.setdefault(row["seller"], []).append((row["expires"], row["avg_price"]))
    assert found == {
        7: [(1000, 100), (2000, 150), (2500, 701 // 3), (3500, 731 // 4)],
        8: [(1200, 50), (3000, 60)],
    }


@pytest.mark.parametrize("split", range(len(OPEN) + 1))
def test_q9_has_the_highest_bid_of_each_auction_so_far(split):
    rows = run(q9.build(), "q9", OPEN[:split], OPEN[split:])
    assert {row["id"]: (row["price"], row["bid_date_time"]) for row in rows} == {
        1: (400, 1000),
        2: (80, 300),
        3: (300, 2000),
    }


@pytest.mark.parametrize("split", range(len(STATISTICS) + 1))
def test_q17_aggregates_by_auction_and_day(split):
    rows = run(q17.build(), "q17", statistics()[:split], statistics()[split:])
    last = {row["auction"]: list(row.values())[:10] for row in rows}
    assert last == {
        1000: [1000, "2015-07-15", 4, 3, 1, 0, 20, 10000, 5017, 20069],
        1001: [1001, "2015-07-15", 2, 0, 1, 1, 999999, 1000000, 999999, 1999999],
    }


@pytest.mark.parametrize("split", range(len(STATISTICS) + 1))
def test_q18_keeps_the_last_bid_of_each_bidder(split):
    rows = run(q18.build(), "q18", statistics()[:split], statistics()[split:])
    assert {(row["bidder"], row["auction"]): row["price"] for row in rows} == {
        (1, 1000): 20,
        (2, 1000): 9999,
        (1, 1001): 999999,
        (3, 1001): 1000000,
    }


@pytest.mark.parametrize("split", range(len(STATISTICS) + 1))
def test_q19_ranks_bids(split):
    rows = run(q19.build(), "q19", statistics()[:split], statistics()[split:])
    last = {(row["auction"], row["rank_number"]): row["price"] for row in rows}
    assert last == {
        (1000, 1): 10000,
        (1000, 2): 9999,
        (1000, 3): 50,
        (1000, 4): 20,
        (1001, 1): 1000000,
        (1001, 2): 999999,
    }


@pytest.mark.parametrize(
    ("channel", "url", "channel_id"),
    [
        ("channel-42", "https://www.nexmark.com/a/b/c/item.htm?query=1&channel_id=42", "42"),
        ("channel-42", "https://www.nexmark.com/a/b/c/item.htm?query=1&channel_id=42&more=1", "42"),
        ("channel-7", "https://www.nexmark.com/a/b/c/item.htm?query=1", None),
        ("channel-7", "https://www.nexmark.com/a/b/c/item.htm?query=1&old_channel_id=42", None),
        ("channel-7", "channel_id=5", "5"),
        ("Google", "https://www.nexmark.com/a/b/c/item.htm?query=1", "1"),
    ],
)
def test_q21_finds_the_channel_id(channel, url, channel_id):
    rows = run(q21.build(), "q21", [bid(channel=channel, url=url)])
    assert [row["channel_id"] for row in rows] == ([] if channel_id is None else [channel_id])


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


@pytest.mark.parametrize(
    "module",
    [
        key_count,
        map_map,
        q0,
        q1,
        q2,
        q3,
        q4,
        q5,
        q6,
        q7,
        q8,
        q9,
        q10,
        q11,
        q12,
        q13,
        q14,
        q15,
        q16,
        q17,
        q18,
        q19,
        q20,
        q21,
        q22,
    ],
)
def test_every_query_says_what_it_does_and_carries_the_emit_time(module):
    assert module.__doc__
    plan = module.query.plan()
    assert plan.description
    assert plan.stages[0].inputs[0].emit_time == "sched_ms"
    assert SCHED == "__sched_ms"
