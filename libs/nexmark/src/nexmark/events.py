"""The three kinds of event and the columns that hold them.

Of every 50 consecutive event ids the first is a person, the next three are auctions and the rest are bids.
All kinds share one flat table, ``EVENT_SCHEMA``; a column that does not belong to a kind is null there.
Money is whole US cents, times are milliseconds since the Unix epoch.

Every event:
    eid: Event id, dense from 0; decides kind, content and time.
    type: ``person``, ``auction`` or ``bid``.
    date_time: Event time.
    extra: Padding of letters that brings the event near its target size.

Person:
    id: Dense from 1000.
    name, email_address, credit_card: First and last name; made-up address; four groups of four digits.
    city, state: One of 10 and one of 6, drawn independently.

Auction:
    id: Dense from 1000, counted apart from persons.
    item_name, description: 3–19 and 3–99 characters.
    initial_bid, reserve: Cents; the reserve lies above the initial bid.
    expires: End of the auction; it starts at its ``date_time``.
    seller: Id of a person, rarely of one who is created a little later.
    category: 10 to 14.

Bid:
    auction, bidder: Ids; either may be created a little later than the bid.
    price: Cents.
    channel, url: Where the bid came from.
"""

from typing import Final

import pyarrow as pa

PERSON_PROPORTION: Final = 1
AUCTION_PROPORTION: Final = 3
BID_PROPORTION: Final = 46
BATCH: Final = PERSON_PROPORTION + AUCTION_PROPORTION + BID_PROPORTION
"""Event ids after which the pattern person, auctions, bids starts again."""

FIRST_PERSON_ID: Final = 1000
FIRST_AUCTION_ID: Final = 1000
FIRST_CATEGORY: Final = 10
CATEGORIES: Final = 5

LEAD: Final = 10
"""References reach this many ids into the future, so that some precede their target."""

PERSON_BYTES: Final = 200
AUCTION_BYTES: Final = 500
BID_BYTES: Final = 100
"""Target average sizes, in which every number counts as 8 bytes."""

EVENT_TYPES: Final = ("person", "auction", "bid")

EVENT_SCHEMA: Final = pa.schema(
    [
        pa.field("eid", pa.int64(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("date_time", pa.int64(), nullable=False),
        ("id", pa.int64()),
        ("name", pa.string()),
        ("email_address", pa.string()),
        ("credit_card", pa.string()),
        ("city", pa.string()),
        ("state", pa.string()),
        ("item_name", pa.string()),
        ("description", pa.string()),
        ("initial_bid", pa.int64()),
        ("reserve", pa.int64()),
        ("expires", pa.int64()),
        ("seller", pa.int64()),
        ("category", pa.int64()),
        ("auction", pa.int64()),
        ("bidder", pa.int64()),
        ("price", pa.int64()),
        ("channel", pa.string()),
        ("url", pa.string()),
        pa.field("extra", pa.string(), nullable=False),
    ]
)
"""Columns of ``generate``: the union of the three kinds."""

PERSON_FIELDS: Final = (
    "type", "eid", "date_time", "id", "name", "email_address", "credit_card", "city", "state", "extra",
)  # fmt: skip
AUCTION_FIELDS: Final = (
    "type", "eid", "date_time", "id", "item_name", "description", "initial_bid", "reserve", "expires",
    "seller", "category", "extra",
)  # fmt: skip
BID_FIELDS: Final = ("type", "eid", "date_time", "auction", "bidder", "price", "channel", "url", "extra")
"""Keys of the JSON form of each kind, in order."""

FIELDS: Final = dict(zip(EVENT_TYPES, (PERSON_FIELDS, AUCTION_FIELDS, BID_FIELDS), strict=True))
"""JSON keys by kind."""
