"""Events as one flat Arrow table."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from nexmark.arrays import IntArray
from nexmark.batches import Chunk, chunks
from nexmark.config import GeneratorConfig
from nexmark.content import Auctions, Bids, Persons
from nexmark.events import EVENT_SCHEMA, EVENT_TYPES
from nexmark.pools import pools_of
from nexmark.text import Choices, Packed, Text

_TYPES = Choices(EVENT_TYPES)


def generate(config: GeneratorConfig, start: int, count: int, step: int = 1) -> pa.RecordBatch:
    """The events at emission indices ``start, start + step, …`` as a table.

    Args:
        config: What determines the stream.
        start: First emission index, at least 0.
        count: Number of events, at most ``MAX_EVENTS_PER_CALL``.
        step: Distance between emission indices; N generators that share a stream use N.

    Returns:
        ``count`` rows of ``EVENT_SCHEMA`` in emission order.

    Raises:
        NexmarkError: The range is invalid or too large.
    """
    batches = [_record_batch(chunk) for chunk in chunks(config, start, count, step)]
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _record_batch(chunk: Chunk) -> pa.RecordBatch:
    persons, auctions, bids = chunk.persons(), chunk.auctions(), chunk.bids()
    pools = pools_of(chunk.config.seed)
    person, auction, bid = (_Scatter(chunk.size, rows) for rows in _rows(chunk))
    owner = _Scatter(chunk.size, np.concatenate((chunk.person_rows, chunk.auction_rows)))
    columns = {
        "eid": pa.array(chunk.eid),
        "type": _types(chunk),
        "date_time": pa.array(chunk.date_time),
        "id": owner.numbers(np.concatenate((persons.id, auctions.id))),
        **{name: person.text(getattr(persons, name)) for name in _PERSON_TEXTS},
        **{name: auction.text(getattr(auctions, name)) for name in _AUCTION_TEXTS},
        **{name: auction.numbers(getattr(auctions, name)) for name in _AUCTION_NUMBERS},
        **{name: bid.numbers(getattr(bids, name)) for name in _BID_NUMBERS},
        "channel": bid.text(pools.channels.pick(bids.channel_entry)),
        "url": bid.text(pools.urls.pick(bids.channel_entry)),
        "extra": _extra(chunk, (persons, auctions, bids)),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in EVENT_SCHEMA.names], schema=EVENT_SCHEMA)


_PERSON_TEXTS = ("name", "email_address", "credit_card", "city", "state")
_AUCTION_TEXTS = ("item_name", "description")
_AUCTION_NUMBERS = ("initial_bid", "reserve", "expires", "seller", "category")
_BID_NUMBERS = ("auction", "bidder", "price")


def _rows(chunk: Chunk) -> tuple[IntArray, IntArray, IntArray]:
    return chunk.person_rows, chunk.auction_rows, chunk.bid_rows


class _Scatter:
    """Spreads columns of some rows over all rows of a chunk, null elsewhere."""

    def __init__(self, size: int, rows: IntArray) -> None:
        self._size, self._rows = size, rows
        present = np.zeros(size, dtype=np.bool_)
        present[rows] = True
        self._validity = pa.py_buffer(np.packbits(present, bitorder="little"))

    @property
    def _nulls(self) -> int:
        return self._size - self._rows.size

    def numbers(self, values: IntArray) -> pa.Array:
        spread = np.zeros(self._size, dtype=np.int64)
        spread[self._rows] = values
        buffers = [self._validity, pa.py_buffer(spread)]
        return pa.Array.from_buffers(pa.int64(), self._size, buffers, null_count=self._nulls)

    def text(self, text: Text) -> pa.Array:
        lengths = np.zeros(self._size, dtype=np.int64)
        lengths[self._rows] = text.length
        packed = Packed.allocate(lengths)
        text.write_ascending(packed.source, packed.starts.take(self._rows))
        return packed.arrow(pa.string(), self._validity, self._nulls)


def _types(chunk: Chunk) -> pa.Array:
    index = np.full(chunk.size, EVENT_TYPES.index("bid"), dtype=np.int64)
    index[chunk.person_rows] = EVENT_TYPES.index("person")
    index[chunk.auction_rows] = EVENT_TYPES.index("auction")
    types = _TYPES.pick(index)
    packed = Packed.allocate(types.length)
    types.write_ascending(packed.source, packed.starts[:-1])
    return packed.arrow(pa.string())


def _extra(chunk: Chunk, kinds: Iterable[Persons | Auctions | Bids]) -> pa.Array:
    """The padding of all kinds; written exactly, because the rows of different kinds are neighbours."""
    texts = [events.extra for events in kinds]
    lengths = np.empty(chunk.size, dtype=np.int64)
    for rows, text in zip(_rows(chunk), texts, strict=True):
        lengths[rows] = text.length
    packed = Packed.allocate(lengths)
    for rows, text in zip(_rows(chunk), texts, strict=True):
        text.write_exactly(packed.source, packed.starts.take(rows))
    return packed.arrow(pa.string())
