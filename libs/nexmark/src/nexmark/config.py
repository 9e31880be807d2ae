"""Settings of the generator."""

from dataclasses import dataclass, field

import numpy as np

from nexmark.arrays import IntArray
from nexmark.errors import NexmarkError
from nexmark.events import AUCTION_PROPORTION, BATCH
from nexmark.profile import Profile

BASE_TIME_MS = 1_436_918_400_000
"""2015-07-15T00:00:00Z, the usual epoch of NEXMark; divisible by the 10 s of its windows."""

SHUFFLE_STRIDE = 953
"""A prime. Emission within a group of n walks in steps of 953 modulo n, which visits every event once
exactly when n is not a multiple of 953."""


@dataclass(frozen=True)
class GeneratorConfig:
    """What determines the stream: two equal configurations give the same events, bytes included.

    More pressure on few keys: raise ``hot_auction_ratio`` (a bid goes to the hot auction with probability
    ``1 - 1/ratio``) and ``hot_batch`` (ids between changes of the hot key: the hot auction lives for
    ``hot_batch * 50/3`` events, the hot person for ``hot_batch * 50``).

    Attributes:
        seed: Any integer; used modulo 2^64.
        base_time_ms: Event time of event 0, milliseconds since the Unix epoch.
        profile: Events per second of event time.
        out_of_order_group: Size n of the groups within which emission is shuffled; 1 keeps event order.
            An event is late by at most n − 1 events.
        in_flight_auctions: Auctions open at a time, on average; also the spread of cold bids.
        active_people: Number of the newest people who bid and sell.
        hot_batch: Ids that share one hot auction or person.
        hot_auction_ratio: One bid in this many goes to a cold auction; 1 makes all of them cold.
        hot_bidder_ratio: One bid in this many comes from a cold bidder.
        hot_seller_ratio: One auction in this many has a cold seller.
    """

    seed: int = 42
    base_time_ms: int = BASE_TIME_MS
    profile: Profile = field(default_factory=lambda: Profile.constant(1000))
    out_of_order_group: int = 1
    in_flight_auctions: int = 100
    active_people: int = 1000
    hot_batch: int = 100
    hot_auction_ratio: int = 2
    hot_bidder_ratio: int = 4
    hot_seller_ratio: int = 4

    def __post_init__(self) -> None:
        for name in (
            "out_of_order_group",
            "in_flight_auctions",
            "active_people",
            "hot_batch",
            "hot_auction_ratio",
            "hot_bidder_ratio",
            "hot_seller_ratio",
        ):
            if getattr(self, name) < 1:
                raise NexmarkError(f"{name}={getattr(self, name)} is too small: give a number of at least 1")
        if self.base_time_ms < 0:
            raise NexmarkError(
                f"base_time_ms={self.base_time_ms} lies before 1970: give milliseconds since the Unix epoch"
            )
        if self.out_of_order_group % SHUFFLE_STRIDE == 0:
            raise NexmarkError(
                f"out_of_order_group={self.out_of_order_group} is a multiple of {SHUFFLE_STRIDE}, which would "
                f"repeat some events and skip others: use {self.out_of_order_group + 1}"
            )

    @property
    def horizon_events(self) -> int:
        """Events emitted while ``in_flight_auctions`` auctions are created: half an auction's longest life."""
        return self.in_flight_auctions * BATCH // AUCTION_PROPORTION

    def event_ids(self, indices: IntArray) -> IntArray:
        """Event ids at the given emission indices: a permutation within each group."""
        group = self.out_of_order_group
        if group == 1:
            return indices
        inside = indices % group
        return indices - inside + inside * SHUFFLE_STRIDE % group

    def event_time_ms(self, event_ids: IntArray) -> IntArray:
        """Event time of each event id, milliseconds since the Unix epoch."""
        times = self.profile.offsets_ms(event_ids)
        times += self.base_time_ms
        return times

    def watermark_ms(self, indices: IntArray) -> IntArray:
        """Exact watermark at each emission index: no later emission has an earlier event time."""
        return self.event_time_ms(indices - indices % self.out_of_order_group)

    def emission_indices(self, start: int, count: int, step: int = 1) -> IntArray:
        """The indices ``start, start + step, …`` (``count`` of them), checked.

        Raises:
            NexmarkError: ``start`` or ``count`` is negative or ``step`` is below 1.
        """
        if start < 0 or count < 0 or step < 1:
            raise NexmarkError(
                f"start={start}, count={count}, step={step} is no range of events: "
                "start and count must be at least 0 and step at least 1"
            )
        return np.arange(start, start + count * step, step, dtype=np.int64)
