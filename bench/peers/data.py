"""What lies in the source topics, as JSON; everything follows from the seed, so that every run sees the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.peers.model import PARTITIONS, Data
from nexmark import GeneratorConfig, generate_json
from nexmark.layout import Layout
from statemgr.partitioner import partitions_of_buffers

SEED = 42
CHUNK = 200_000
_KEYS = {
    Data.UNIFORM_10K: 10_000,
    Data.UNIFORM_100K: 100_000,
    Data.UNIFORM_1M: 1_000_000,
    Data.UNIFORM_10M: 10_000_000,
    Data.ZIPF_10K: 10_000,
    Data.ZIPF_100K: 100_000,
    Data.ZIPF_1M: 1_000_000,
    Data.ZIPF_10M: 10_000_000,
}
_ZIPF = (Data.ZIPF_10K, Data.ZIPF_100K, Data.ZIPF_1M, Data.ZIPF_10M)
_ZIPF_EXPONENT = 1.0
_BIDDERS = 1_000_000
_PRICES = 100_000_000
_BASE_MS = 1_436_918_400_000

Keys = NDArray[np.int64]


@dataclass(frozen=True)
class Chunk:
    """Some events.

    Attributes:
        values: JSON, one per event.
        keys: record keys, or None for null keys.
        partitions: of each event.
    """

    values: pa.BinaryArray
    keys: pa.BinaryArray | None
    partitions: NDArray[np.int32]


def chunks(data: Data, events: int, partitions: int = PARTITIONS) -> Iterator[Chunk]:
    """The first so many events, in order, for a topic of so many partitions."""
    if data is Data.NEXMARK:
        config = GeneratorConfig(seed=SEED)
        for start in range(0, events, CHUNK):
            count = min(CHUNK, events - start)
            round_robin = (np.arange(start, start + count) % partitions).astype(np.int32)
            yield Chunk(generate_json(config, start, count), None, round_robin)
        return
    keys = drawn_keys(data, events)
    for start in range(0, events, CHUNK):
        yield short_bids(keys[start : start + CHUNK], start, partitions)


def short_bids(keys: Keys, first: int, partitions: int = PARTITIONS) -> Chunk:
    """Short bids of these auctions, partitioned by auction; ``first`` is the number of the first of them."""
    number = np.arange(first, first + keys.size, dtype=np.int64)
    chance = np.random.default_rng([SEED, first])
    values = Layout(
        [
            b'{"type":"bid","auction":', keys,
            b',"bidder":', chance.integers(0, _BIDDERS, keys.size),
            b',"price":', chance.integers(100, _PRICES, keys.size),
            b',"date_time":', _BASE_MS + number,
            b"}",
        ],
        keys.size,
    )  # fmt: skip
    texts = Layout([keys], keys.size).packed().arrow(pa.binary())
    return Chunk(values.packed().arrow(pa.binary()), texts, _partitions(texts, partitions))


def drawn_keys(data: Data, events: int) -> Keys:
    """Keys of the short bids. With 10 M uniform keys, the first 10 M events have every key once, shuffled."""
    chance = np.random.default_rng([SEED, _KEYS[data]])
    count = _KEYS[data]
    if data in _ZIPF:
        weights = np.arange(1, count + 1, dtype=np.float64) ** -_ZIPF_EXPONENT
        ranks = np.searchsorted(np.cumsum(weights) / weights.sum(), chance.random(events))
        return chance.permutation(count)[np.minimum(ranks, count - 1)]
    if data is Data.UNIFORM_10M:
        every = chance.permutation(count)
        return np.concatenate([every, chance.integers(0, count, max(events - count, 0))])[:events]
    return chance.integers(0, count, events)


def _partitions(texts: pa.BinaryArray, count: int) -> NDArray[np.int32]:
    _, offsets, content = texts.buffers()
    return partitions_of_buffers(np.frombuffer(offsets, dtype=np.int32)[: len(texts) + 1], content, count)
