"""Events as JSON values, and the keys under which they are partitioned."""

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from nexmark.arrays import IntArray
from nexmark.batches import Chunk, chunks
from nexmark.config import GeneratorConfig
from nexmark.content import bid_auctions, bid_bidders
from nexmark.errors import NexmarkError
from nexmark.layout import Layout, Piece
from nexmark.pools import pools_of
from nexmark.text import Packed
from nexmark.words import Draws

KeyField: TypeAlias = Literal["auction", "bidder"]
"""The columns of a bid that serve as a record key."""

_KEYS: dict[str, Callable[[GeneratorConfig, IntArray, Draws], IntArray]] = {
    "auction": bid_auctions,
    "bidder": bid_bidders,
}


def generate_json(
    config: GeneratorConfig, start: int, count: int, step: int = 1, sched_ms: IntArray | None = None
) -> pa.BinaryArray:
    """The events at emission indices ``start, start + step, …`` as JSON, one value per event.

    Keys come in the order of ``FIELDS`` for the event's type, without blanks or a newline. No string needs
    escaping, as all of them consist of letters, digits, blanks and url punctuation.

    Args:
        config: What determines the stream.
        start: First emission index, at least 0.
        count: Number of events, at most ``MAX_EVENTS_PER_CALL``.
        step: Distance between emission indices; N generators that share a stream use N.
        sched_ms: Intended wall-clock emission of each event in milliseconds since the Unix epoch (int64,
            ``count`` values ≥ 0), added as the last key ``sched_ms``.

    Returns:
        ``count`` values in emission order.

    Raises:
        NexmarkError: The range is invalid or too large, or ``sched_ms`` does not fit it.
    """
    if sched_ms is not None:
        sched_ms = _checked_schedule(sched_ms, count)
    arrays = [_lines(chunk, sched_ms) for chunk in chunks(config, start, count, step)]
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def keys(config: GeneratorConfig, start: int, count: int, step: int, by: KeyField) -> pa.BinaryArray:
    """Record keys of the events at emission indices ``start, start + step, …``.

    Args:
        config: What determines the stream.
        start: First emission index, at least 0.
        count: Number of events, at most ``MAX_EVENTS_PER_CALL``.
        step: Distance between emission indices.
        by: The field of a bid whose value is the key.

    Returns:
        ``count`` decimal numbers in ASCII, null for persons and auctions.

    Raises:
        NexmarkError: The range is invalid or too large, or ``by`` is no key.
    """
    if by not in _KEYS:
        raise NexmarkError(f"events have no key {by!r}: use one of {', '.join(sorted(_KEYS))}")
    arrays = [_chunk_keys(chunk, by) for chunk in chunks(config, start, count, step)]
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _checked_schedule(sched_ms: IntArray, count: int) -> IntArray:
    schedule = np.asarray(sched_ms)
    if schedule.shape != (count,) or schedule.dtype.kind not in "iu":
        raise NexmarkError(f"sched_ms has shape {schedule.shape} and type {schedule.dtype}: give {count} whole numbers")
    if count and schedule.min() < 0:
        raise NexmarkError("sched_ms holds a time before 1970: give milliseconds since the Unix epoch")
    return schedule.astype(np.int64, copy=False)


def _lines(chunk: Chunk, sched_ms: IntArray | None) -> pa.BinaryArray:
    def layout(pieces: list[Piece], rows: IntArray) -> Layout:
        if sched_ms is None:
            return Layout([*pieces, b'"}'], rows.size)
        times = sched_ms[chunk.first : chunk.first + chunk.size].take(rows)
        return Layout([*pieces, b'","sched_ms":', times, b"}"], rows.size)

    kinds = [
        (chunk.person_rows, layout(_person_pieces(chunk), chunk.person_rows)),
        (chunk.auction_rows, layout(_auction_pieces(chunk), chunk.auction_rows)),
        (chunk.bid_rows, layout(_bid_pieces(chunk), chunk.bid_rows)),
    ]
    lengths = np.empty(chunk.size, dtype=np.int64)
    for rows, lines in kinds:
        lengths[rows] = lines.lengths
    packed = Packed.allocate(lengths)
    ends = packed.starts[1:]
    for rows, lines in kinds:
        lines.write(packed.source, ends.take(rows))
    return packed.arrow(pa.binary())


def _person_pieces(chunk: Chunk) -> list[Piece]:
    events = chunk.persons()
    return [
        b'{"type":"person","eid":', events.eid,
        b',"date_time":', events.date_time,
        b',"id":', events.id,
        b',"name":"', events.name,
        b'","email_address":"', events.email_address,
        b'","credit_card":"', events.credit_card,
        b'","city":"', events.city,
        b'","state":"', events.state,
        b'","extra":"', events.extra,
    ]  # fmt: skip


def _auction_pieces(chunk: Chunk) -> list[Piece]:
    events = chunk.auctions()
    return [
        b'{"type":"auction","eid":', events.eid,
        b',"date_time":', events.date_time,
        b',"id":', events.id,
        b',"item_name":"', events.item_name,
        b'","description":"', events.description,
        b'","initial_bid":', events.initial_bid,
        b',"reserve":', events.reserve,
        b',"expires":', events.expires,
        b',"seller":', events.seller,
        b',"category":', events.category,
        b',"extra":"', events.extra,
    ]  # fmt: skip


def _bid_pieces(chunk: Chunk) -> list[Piece]:
    events = chunk.bids()
    return [
        b'{"type":"bid","eid":', events.eid,
        b',"date_time":', events.date_time,
        b',"auction":', events.auction,
        b',"bidder":', events.bidder,
        b',"price":', events.price,
        b',"channel":"', pools_of(chunk.config.seed).channel_json.pick(events.channel_entry),
        events.extra,
    ]  # fmt: skip


def _chunk_keys(chunk: Chunk, by: KeyField) -> pa.BinaryArray:
    eid = chunk.eid.take(chunk.bid_rows)
    decimals = Layout([_KEYS[by](chunk.config, eid, Draws.of_events(chunk.config.seed, eid))], eid.size)
    lengths = np.zeros(chunk.size, dtype=np.int64)
    lengths[chunk.bid_rows] = decimals.lengths
    present = np.zeros(chunk.size, dtype=np.bool_)
    present[chunk.bid_rows] = True
    packed = Packed.allocate(lengths)
    decimals.write(packed.source, packed.starts[1:].take(chunk.bid_rows))
    validity = pa.py_buffer(np.packbits(present, bitorder="little"))
    return packed.arrow(pa.binary(), validity, chunk.size - eid.size)
