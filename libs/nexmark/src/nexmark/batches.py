"""Cuts a run of events into cache-sized chunks and each chunk into its three kinds."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nexmark.arrays import IntArray
from nexmark.config import GeneratorConfig
from nexmark.content import Auctions, Bids, Persons, auctions, bids, persons
from nexmark.errors import NexmarkError
from nexmark.events import AUCTION_PROPORTION, BATCH, PERSON_PROPORTION

CHUNK = 32_768
"""Events worked on at a time.

A chunk has a fixed cost of about 1 ms (some 600 NumPy calls), the time of 3 000 events, so smaller chunks
spend a large share on it; from here to 131 072 the rate is flat, while working memory grows (256 kB for each
of a dozen columns, 10 MB of JSON).
"""

MAX_EVENTS_PER_CALL = 2_000_000
"""Arrow's 32-bit offsets hold 2^31 bytes, and no event has 1 000 bytes as JSON (an auction has most: 880)."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive emissions.

    Attributes:
        config: The settings of the stream.
        first: Position of the chunk in the range that was asked for.
        eid: Event id of each row.
        date_time: Event time of each row.
        person_rows: Positions of the persons in the chunk, ascending.
        auction_rows: Positions of the auctions.
        bid_rows: Positions of the bids.
    """

    config: GeneratorConfig
    first: int
    eid: IntArray
    date_time: IntArray
    person_rows: IntArray
    auction_rows: IntArray
    bid_rows: IntArray

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.eid.size

    def persons(self) -> Persons:
        """The events at ``person_rows``."""
        rows = self.person_rows
        return persons(self.config, self.eid.take(rows), self.date_time.take(rows))

    def auctions(self) -> Auctions:
        """The events at ``auction_rows``."""
        rows = self.auction_rows
        return auctions(self.config, self.eid.take(rows), self.date_time.take(rows))

    def bids(self) -> Bids:
        """The events at ``bid_rows``."""
        rows = self.bid_rows
        return bids(self.config, self.eid.take(rows), self.date_time.take(rows))


def chunks(config: GeneratorConfig, start: int, count: int, step: int, size: int = CHUNK) -> Iterator[Chunk]:
    """The emissions ``start, start + step, …`` (``count`` of them) in chunks of up to ``size``.

    Yields one empty chunk if ``count`` is 0.

    Raises:
        NexmarkError: The range is invalid, or larger than ``MAX_EVENTS_PER_CALL``.
    """
    if count > MAX_EVENTS_PER_CALL:
        raise NexmarkError(
            f"count={count} events do not fit one Arrow array: ask for at most {MAX_EVENTS_PER_CALL} at a time"
        )
    indices = config.emission_indices(start, count, step)
    for first in range(0, max(count, 1), size):
        yield _chunk(config, first, config.event_ids(indices[first : first + size]))


def _chunk(config: GeneratorConfig, first: int, eid: IntArray) -> Chunk:
    inside = eid % BATCH
    return Chunk(
        config=config,
        first=first,
        eid=eid,
        date_time=config.event_time_ms(eid),
        person_rows=np.flatnonzero(inside < PERSON_PROPORTION),
        auction_rows=np.flatnonzero((inside >= PERSON_PROPORTION) & (inside < PERSON_PROPORTION + AUCTION_PROPORTION)),
        bid_rows=np.flatnonzero(inside >= PERSON_PROPORTION + AUCTION_PROPORTION),
    )
