"""The same results computed once more, in plain Python over the known input: what outputs and state must equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from queries.map_map import CHEAP_BELOW, DEAR_FROM, MILLI_EURO_PER_DOLLAR

_EXAMPLES = 5


class DifferenceError(AssertionError):
    """Outputs or state differ from the reference."""


class Bid(msgspec.Struct):
    """The fields of a bid that the queries use."""

    type: str
    auction: int = 0
    bidder: int = 0
    price: int = 0
    date_time: int = 0
    sched_ms: int = 0


def bids_of(events: Iterable[bytes]) -> list[Bid]:
    """The bids among the events."""
    decoder = msgspec.json.Decoder(Bid)
    return [bid for bid in map(decoder.decode, events) if bid.type == "bid"]


def final_counts(bids: Iterable[Bid]) -> dict[str, int]:
    """State of the key count: auction → number of bids."""
    return {str(auction): count for auction, count in Counter(bid.auction for bid in bids).items()}


def compare_each_count(outputs: Sequence[Mapping[str, Any]], bids: Sequence[Bid]) -> None:
    """One output per bid with the running count.

    The bids of an auction come from several partitions, so which bid gets which count is not determined. That each
    auction has every count from 1 to its total once is, and that each bid is the origin of one output.

    Raises:
        DifferenceError: names what is missing and what is too much, or the count that goes back.
    """
    totals = Counter(bid.auction for bid in bids)
    expected = Counter((auction, count) for auction, total in totals.items() for count in range(1, total + 1))
    compare("auction and count", Counter((row["auction"], row["count"]) for row in outputs), expected)
    origins = Counter((bid.auction, bid.sched_ms) for bid in bids)
    compare("auction and emit time", Counter((row["auction"], row["sched_ms"]) for row in outputs), origins)
    _require_ascending(outputs)


def compare_repeated_counts(outputs: Sequence[Mapping[str, Any]], bids: Sequence[Bid]) -> None:
    """The same for at-least-once: nothing lost, nothing that is not in the reference, repetitions allowed.

    Raises:
        DifferenceError: names what is missing and what is too much.
    """
    totals = Counter(bid.auction for bid in bids)
    expected = {(auction, count) for auction, total in totals.items() for count in range(1, total + 1)}
    found = {(row["auction"], row["count"]) for row in outputs}
    compare("distinct auction and count", Counter(found), Counter(expected))
    origins = {(bid.auction, bid.sched_ms) for bid in bids}
    found = {(row["auction"], row["sched_ms"]) for row in outputs}
    compare("distinct auction and emit time", Counter(found), Counter(origins))


def compare_mapped(outputs: Sequence[Mapping[str, Any]], bids: Sequence[Bid]) -> None:
    """One output per bid of map_map, every field.

    Raises:
        DifferenceError: names what is missing and what is too much.
    """
    fields = ("auction", "bidder", "price", "price_milli", "price_band", "date_time", "sched_ms")
    found = Counter(tuple(row[field] for field in fields) for row in outputs)
    compare("mapped bid", found, Counter(map(_mapped, bids)))


def compare_state(state: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Final state, key by key.

    Raises:
        DifferenceError: names what is missing, too much, or different.
    """
    compare("key and value", Counter(state.items()), Counter(expected.items()))


def compare(what: str, found: Counter[Any], expected: Counter[Any]) -> None:
    """Two multisets.

    Raises:
        DifferenceError: they differ.
    """
    if found == expected:
        return
    missing, extra = expected - found, found - expected
    raise DifferenceError(
        f"{what}: {missing.total()} of {expected.total()} missing, {extra.total()} too many.\n"
        f"  missing: {_examples(missing)}\n  too many: {_examples(extra)}"
    )


def _mapped(bid: Bid) -> tuple[int, ...]:
    band = 0 if bid.price < CHEAP_BELOW else 1 if bid.price < DEAR_FROM else 2
    milli = bid.price * MILLI_EURO_PER_DOLLAR
    return (bid.auction, bid.bidder, bid.price, milli, band, bid.date_time, bid.sched_ms)


def _require_ascending(outputs: Sequence[Mapping[str, Any]]) -> None:
    """Each key's counts go up one by one in the order of its partition (I3)."""
    last: dict[tuple[int, int], int] = {}
    for row in outputs:
        key = (row["__partition"], row["auction"])
        if row["count"] != last.get(key, 0) + 1:
            raise DifferenceError(f"auction {key[1]}: count {row['count']} follows {last.get(key, 0)}")
        last[key] = row["count"]


def _examples(items: Counter[Any]) -> str:
    shown = ", ".join(f"{item}" + (f" ×{times}" if times > 1 else "") for item, times in items.most_common(_EXAMPLES))
    return shown + (" …" if len(items) > _EXAMPLES else "") if shown else "none"
