"""Which keys a task uses most: what the next owner should have first."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

NOTED_BATCHES = 64
"""Batches that are remembered."""

SINGLES_BATCH = 256
"""Keys used one by one that count as one batch."""


class KeyUses:
    """Remembers the keys of the last batches, at the cost of one reference per batch.

    Args:
        limit: keys remembered at most, the last batch apart; each may be an object of 50 bytes that only this keeps.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._batches: deque[Sequence[bytes]] = deque()
        self._keys = 0
        self._singles: list[bytes] = []

    def note(self, keys: Sequence[bytes]) -> None:
        """A batch of keys was used; the sequence is kept as it is."""
        self._batches.append(keys)
        self._keys += len(keys)
        while len(self._batches) > NOTED_BATCHES or (self._keys > self._limit and len(self._batches) > 1):
            self._keys -= len(self._batches.popleft())

    def note_one(self, key: bytes) -> None:
        """A key was used by itself."""
        self._singles.append(key)
        if len(self._singles) >= SINGLES_BATCH:
            self.note(self._singles)
            self._singles = []

    def counts(self) -> Counter[bytes]:
        """Key → how often it is among what is remembered."""
        counts = Counter(self._singles)
        for keys in self._batches:
            counts.update(keys)
        return counts
