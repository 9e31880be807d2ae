"""Which keys a task uses most: what the next owner should have first."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

NOTED_BATCHES = 64
"""Batches that are remembered."""

SINGLES_BATCH = 256
"""Keys used one by one that count as one batch."""

COUNTED_KEYS = 16_384
"""Keys counted at most: four times what is passed on, and 3 ms of a release, which may take 20 (R16)."""


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
        """Key → how often it is among what is remembered.

        All of it counts as long as that is at most :data:`COUNTED_KEYS`. Of larger batches only the beginning counts,
        of each as much: a key that many rows have is among the first in most of them.
        """
        counts: Counter[bytes] = Counter()
        left = COUNTED_KEYS
        batches = sorted((self._singles, *self._batches), key=len)
        for waiting, keys in zip(range(len(batches), 0, -1), batches, strict=True):
            part = keys[: left // waiting]
            counts.update(part)
            left -= len(part)
        return counts
