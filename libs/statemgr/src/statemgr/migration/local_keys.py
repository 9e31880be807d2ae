"""What the store of an arriving task keeps in mind while bins come in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from statemgr.layout import TOMBSTONE_TABLE
from statemgr.store.base import Store

BATCH_BYTES = 256 * 1024
"""Size of a write batch of arriving entries (R9): about 3 ms, so that the owner's own work waits no longer."""

_TOMBSTONE = TOMBSTONE_TABLE.to_bytes(2, "big")
_BEFORE_KEY = 1 + len(_TOMBSTONE)

Pair = tuple[bytes, bytes]


class LocalKeys:
    """Which keys of the bins that are just arriving are in the store already, as value or as tombstone.

    One scan when a range of bins begins to arrive finds the few keys that the owner has used so far; from then on the
    set is kept up to date. Asking the store about every arriving key would cost seconds for a million of them.
    """

    def __init__(self, local: Store) -> None:
        self._local = local
        self._range = range(0)
        self._keys: set[bytes] = set()

    def of(self, first: int, last: int) -> set[bytes]:
        """Keys of bins ``first`` … ``last`` that are there; kept until another range is asked for."""
        wanted = range(first, last + 1)
        if wanted != self._range:
            self._keys = {key for bin_ in wanted for key in self._scan(bin_)}
            self._range = wanted
        return self._keys

    def note(self, keys: Iterable[bytes]) -> None:
        """These are in the store now."""
        if self._range:
            self._keys.update(key for key in keys if key[0] in self._range)

    def forget(self) -> None:
        """Keep nothing in memory."""
        self._range, self._keys = range(0), set()

    def _scan(self, bin_: int) -> Iterator[bytes]:
        with self._local.scan(bytes((bin_,))) as pairs:
            for key, _ in pairs:
                yield key[:1] + key[_BEFORE_KEY:] if key.startswith(_TOMBSTONE, 1) else key


def batches(pairs: Sequence[Pair]) -> Iterator[list[Pair]]:
    """Cut entries into write batches of at most :data:`BATCH_BYTES`; a single larger entry is a batch by itself."""
    batch: list[Pair] = []
    size = 0
    for key, value in pairs:
        added = len(key) + len(value)
        if batch and size + added > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append((key, value))
        size += added
    if batch:
        yield batch
