"""The content of events: columns of persons, auctions and bids, from event ids."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from nexmark.arrays import IntArray
from nexmark.config import GeneratorConfig
from nexmark.events import (
    AUCTION_BYTES,
    AUCTION_PROPORTION,
    BATCH,
    BID_BYTES,
    CATEGORIES,
    FIRST_AUCTION_ID,
    FIRST_CATEGORY,
    FIRST_PERSON_ID,
    LEAD,
    PERSON_BYTES,
    PERSON_PROPORTION,
)
from nexmark.layout import Layout
from nexmark.pools import CHANNELS, HOT_CHANNELS, pools_of
from nexmark.text import Choices, Pool, Text
from nexmark.words import Draws, modulo

FIRST_NAMES = (
    "Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter",
)  # fmt: skip
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
CITIES = (
    "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent",
    "Cheyenne",
)  # fmt: skip
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")

_NAMES = Choices([f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES])
_CITY_CHOICES = Choices(CITIES)
_STATE_CHOICES = Choices(STATES)
_CARD_GROUPS = Choices([f"{i:04}" for i in range(10_000)])

_NUMBER_BYTES = 8
_PERSON_NUMBERS, _AUCTION_NUMBERS, _BID_NUMBERS = 1, 6, 4
"""Numbers that count towards an event's size; the texts of a bid do not count."""

_EXTRA_LENGTH_SLOT, _EXTRA_SLOT = 14, 15


@dataclass(frozen=True, slots=True)
class Persons:
    """Columns of person events, one row each."""

    eid: IntArray
    date_time: IntArray
    id: IntArray
    name: Text
    email_address: Text
    credit_card: Text
    city: Text
    state: Text
    extra: Text


@dataclass(frozen=True, slots=True)
class Auctions:
    """Columns of auction events, one row each."""

    eid: IntArray
    date_time: IntArray
    id: IntArray
    item_name: Text
    description: Text
    initial_bid: IntArray
    reserve: IntArray
    expires: IntArray
    seller: IntArray
    category: IntArray
    extra: Text


@dataclass(frozen=True, slots=True)
class Bids:
    """Columns of bid events, one row each; ``channel_entry`` indexes the channel table."""

    eid: IntArray
    date_time: IntArray
    auction: IntArray
    bidder: IntArray
    price: IntArray
    channel_entry: IntArray
    extra: Text


Events: TypeAlias = Persons | Auctions | Bids


def persons(config: GeneratorConfig, eid: IntArray, date_time: IntArray) -> Persons:
    """The persons with the given event ids."""
    pools, draws = pools_of(config.seed), Draws.of_events(config.seed, eid)
    name = _NAMES.pick(draws.below(0, len(FIRST_NAMES)) * len(LAST_NAMES) + draws.below(1, len(LAST_NAMES)))
    city = _CITY_CHOICES.pick(draws.below(3, len(CITIES)))
    state = _STATE_CHOICES.pick(draws.below(4, len(STATES)))
    email = _email(pools.pad, draws, eid.size)
    card = _credit_card(draws.half_word(5), eid.size)
    return Persons(
        eid=eid,
        date_time=date_time,
        id=eid // BATCH * PERSON_PROPORTION + FIRST_PERSON_ID,
        name=name,
        email_address=email,
        credit_card=card,
        city=city,
        state=state,
        extra=_extra(pools.pad, draws, PERSON_BYTES, _PERSON_NUMBERS, (name, email, card, city, state)),
    )


def auctions(config: GeneratorConfig, eid: IntArray, date_time: IntArray) -> Auctions:
    """The auctions with the given event ids."""
    pools, draws = pools_of(config.seed), Draws.of_events(config.seed, eid)
    batch = eid // BATCH
    item_name = _random_slice(pools.text, draws, 6, 7, 3, 17)
    description = _random_slice(pools.text, draws, 8, 9, 3, 97)
    initial_bid = draws.price(3)
    horizon = config.event_time_ms(eid + config.horizon_events) - date_time
    return Auctions(
        eid=eid,
        date_time=date_time,
        id=batch * AUCTION_PROPORTION + (eid - batch * BATCH - PERSON_PROPORTION + FIRST_AUCTION_ID),
        item_name=item_name,
        description=description,
        initial_bid=initial_bid,
        reserve=initial_bid + draws.price(5),
        expires=date_time + 1 + draws.below(4, np.maximum(2 * horizon, 1)),
        seller=_person(config, draws, batch, config.hot_seller_ratio, 0, 1, beside=0),
        category=FIRST_CATEGORY + draws.below(2, CATEGORIES),
        extra=_extra(pools.pad, draws, AUCTION_BYTES, _AUCTION_NUMBERS, (item_name, description)),
    )


def bids(config: GeneratorConfig, eid: IntArray, date_time: IntArray) -> Bids:
    """The bids with the given event ids."""
    pools, draws = pools_of(config.seed), Draws.of_events(config.seed, eid)
    hot_channel = draws.below(5, 2) > 0
    channel = draws.half_word(6)
    return Bids(
        eid=eid,
        date_time=date_time,
        auction=bid_auctions(config, eid, draws),
        bidder=bid_bidders(config, eid, draws),
        price=draws.price(4),
        channel_entry=np.where(hot_channel, modulo(channel, len(HOT_CHANNELS)) + CHANNELS, modulo(channel, CHANNELS)),
        extra=_extra(pools.pad, draws, BID_BYTES, _BID_NUMBERS, ()),
    )


def bid_auctions(config: GeneratorConfig, eid: IntArray, draws: Draws) -> IntArray:
    """The auction that each bid is for."""
    newest = eid // BATCH * AUCTION_PROPORTION + (AUCTION_PROPORTION - 1)
    oldest = np.maximum(newest - config.in_flight_auctions, 0)
    spread = newest - oldest + (1 + LEAD)
    cold = oldest + draws.below(1, _scalar_if_constant(spread))
    return _hot_or_cold(draws, 0, config.hot_auction_ratio, newest, cold, config.hot_batch) + FIRST_AUCTION_ID


def bid_bidders(config: GeneratorConfig, eid: IntArray, draws: Draws) -> IntArray:
    """The person who makes each bid."""
    return _person(config, draws, eid // BATCH, config.hot_bidder_ratio, 2, 3, beside=1)


def _person(
    config: GeneratorConfig,
    draws: Draws,
    newest: IntArray,
    ratio: int,
    hot_slot: int,
    cold_slot: int,
    *,
    beside: int,
) -> IntArray:
    """A hot or cold person; ``beside`` keeps hot bidders and hot sellers apart."""
    people = newest + 1
    active = np.minimum(people, config.active_people)
    cold = people - active + draws.below(cold_slot, _scalar_if_constant(active + LEAD))
    hot = _hot_or_cold(draws, hot_slot, ratio, newest, cold - beside, config.hot_batch)
    return hot + (beside + FIRST_PERSON_ID)


def _hot_or_cold(draws: Draws, slot: int, ratio: int, newest: IntArray, cold: IntArray, hot_batch: int) -> IntArray:
    """The first id of the newest batch, or with probability ``1 / ratio`` the cold choice."""
    return np.where(draws.below(slot, ratio) > 0, newest - modulo(newest, hot_batch), cold)


def _scalar_if_constant(values: IntArray) -> int | IntArray:
    """One number if all are equal, as they are everywhere but near the start: division is then faster."""
    if values.size and (first := int(values[0])) == values.min() == values.max():
        return first
    return values


def _pool_slice(pool: Pool, draws: Draws, slot: int, length: IntArray, shortest: int, longest: int) -> Text:
    return pool.slices(draws.below(slot, pool.size - length), length, shortest, longest)


def _random_slice(pool: Pool, draws: Draws, length_slot: int, slot: int, shortest: int, lengths: int) -> Text:
    """A slice of one of ``lengths`` equally likely lengths, from ``shortest`` on."""
    length = shortest + draws.below(length_slot, lengths)
    return _pool_slice(pool, draws, slot, length, shortest, shortest + lengths - 1)


def _email(pad: Pool, draws: Draws, rows: int) -> Text:
    local = _random_slice(pad, draws, 6, 7, 3, 4)
    domain = _random_slice(pad, draws, 8, 9, 3, 2)
    return Layout((local, b"@", domain, b".com"), rows).text()


def _credit_card(word: IntArray, rows: int) -> Text:
    groups = [_CARD_GROUPS.pick(modulo(word // 10_000**i, 10_000)) for i in range(4)]
    return Layout((groups[0], b" ", groups[1], b" ", groups[2], b" ", groups[3]), rows).text()


def _spread_of(missing: int) -> int:
    """Padding varies by up to a fifth of the missing bytes either way (rounded half up)."""
    return (2 * missing + 5) // 10


def _extra(pad: Pool, draws: Draws, target: int, numbers: int, texts: tuple[Text, ...]) -> Text:
    """Padding that brings an event to its target size on average.

    The fields are always far shorter than the target (the longest person has 71 of 200 bytes, the longest
    auction 166 of 500), so there is always something to pad.
    """
    missing = target - numbers * _NUMBER_BYTES
    most = missing - sum(t.shortest for t in texts)
    least = missing - sum(t.longest for t in texts)
    shortest, longest = least - _spread_of(least), most + _spread_of(most) - 1
    if not texts:
        spread = _spread_of(missing)
        length = draws.below(_EXTRA_LENGTH_SLOT, 2 * spread) + (missing - spread)
        return _pool_slice(pad, draws, _EXTRA_SLOT, length, shortest, longest)
    gap = missing - sum(t.length for t in texts)
    spreads = (2 * gap + 5) // 10
    length = gap - spreads + draws.below(_EXTRA_LENGTH_SLOT, 2 * spreads)
    return _pool_slice(pad, draws, _EXTRA_SLOT, length, shortest, longest)
