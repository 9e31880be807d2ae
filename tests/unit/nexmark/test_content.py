"""What the events are like: proportions, keys, sizes."""

import numpy as np
import pytest

from nexmark import GeneratorConfig, generate

EVENTS = 100_000


@pytest.fixture(scope="module")
def table():
    return generate(GeneratorConfig(), 0, EVENTS)


def rows_of(table, kind):
    return table.filter(np.array(table["type"]) == kind)


def ints(table, column):
    return table[column].to_numpy(zero_copy_only=False).astype(np.int64)


def lengths(table, *columns):
    return sum(np.array([len(s) for s in table[c].to_pylist()]) for c in columns)


def test_of_fifty_events_one_is_a_person_three_are_auctions_and_the_rest_bids(table):
    kinds, counts = np.unique(np.array(table["type"]), return_counts=True)
    assert dict(zip(kinds, counts.tolist(), strict=True)) == {"person": 2000, "auction": 6000, "bid": 92_000}


def test_ids_are_dense_from_1000(table):
    assert ints(rows_of(table, "person"), "id").tolist() == list(range(1000, 3000))
    assert ints(rows_of(table, "auction"), "id").tolist() == list(range(1000, 7000))


def test_half_of_the_bids_go_to_the_hot_auction(table):
    bids = rows_of(table, "bid")
    newest = ints(bids, "eid") // 50 * 3 + 2
    assert abs((ints(bids, "auction") == 1000 + newest // 100 * 100).mean() - 0.5) < 0.01


def test_three_quarters_of_bidders_and_sellers_are_hot_and_never_the_same(table):
    bids, auctions = rows_of(table, "bid"), rows_of(table, "auction")
    hot_bidder = 1001 + ints(bids, "eid") // 50 // 100 * 100
    hot_seller = 1000 + ints(auctions, "eid") // 50 // 100 * 100
    assert abs((ints(bids, "bidder") == hot_bidder).mean() - 0.75) < 0.01
    assert abs((ints(auctions, "seller") == hot_seller).mean() - 0.75) < 0.02


def test_a_twentieth_of_the_bids_precede_their_auction_by_up_to_ten_ids(table):
    bids = rows_of(table, "bid")
    ahead = ints(bids, "auction") - 1000 - (ints(bids, "eid") // 50 * 3 + 2)
    assert 0.045 < (ahead > 0).mean() < 0.049
    assert ahead.max() == 10
    assert ahead.min() >= -199


def test_larger_ratio_and_batch_concentrate_bids_on_few_long_lived_keys():
    config = GeneratorConfig(hot_auction_ratio=20, hot_batch=1000)
    auctions = ints(rows_of(generate(config, 0, 50_000), "bid"), "auction")
    counts = np.sort(np.unique(auctions, return_counts=True)[1])
    assert counts[-3:].sum() / auctions.size > 0.94


def test_about_as_many_auctions_as_asked_for_are_open_at_a_time(table):
    auctions = rows_of(table, "auction")
    starts, ends = ints(auctions, "date_time"), ints(auctions, "expires")
    open_now = [((starts <= t) & (t < ends)).sum() for t in starts[1000:5000:50]]
    assert 85 < np.mean(open_now) < 115
    assert (ends > starts).all()


def test_many_auctions_in_flight_live_longer():
    short, long = (rows_of(generate(GeneratorConfig(in_flight_auctions=f), 0, 5000), "auction") for f in (100, 10_000))
    mean = [(ints(a, "expires") - ints(a, "date_time")).mean() for a in (short, long)]
    assert 80 < mean[1] / mean[0] < 125


def test_bid_padding_is_54_to_81_characters(table):
    sizes = lengths(rows_of(table, "bid"), "extra")
    assert (sizes.min(), sizes.max()) == (54, 81)
    assert abs(sizes.mean() - 67.5) < 0.1


def test_events_have_their_target_sizes_on_average(table):
    persons, auctions = rows_of(table, "person"), rows_of(table, "auction")
    person = 8 + lengths(persons, "name", "email_address", "credit_card", "city", "state", "extra")
    auction = 48 + lengths(auctions, "item_name", "description", "extra")
    assert abs(person.mean() - 200) < 2
    assert abs(auction.mean() - 500) < 2


def test_texts_keep_their_bounds(table):
    auctions, persons = rows_of(table, "auction"), rows_of(table, "person")
    assert {len(s) for s in auctions["item_name"].to_pylist()} == set(range(3, 20))
    assert {len(s) for s in auctions["description"].to_pylist()} == set(range(3, 100))
    assert set(ints(auctions, "category").tolist()) == {10, 11, 12, 13, 14}
    assert {len(s) for s in persons["credit_card"].to_pylist()} == {19}
    assert {len(s) for s in persons["email_address"].to_pylist()} == set(range(11, 16))


def test_half_of_the_bids_come_from_four_hot_channels(table):
    channels = rows_of(table, "bid")["channel"].to_pylist()
    share = sum(c in {"Google", "Facebook", "Baidu", "Apple"} for c in channels) / len(channels)
    assert abs(share - 0.5) < 0.01


def test_the_reserve_lies_above_the_initial_bid(table):
    auctions = rows_of(table, "auction")
    assert (ints(auctions, "reserve") - ints(auctions, "initial_bid") >= 100).all()
