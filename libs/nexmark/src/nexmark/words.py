"""Counter-based random words: each draw is a pure function of (seed, event id, slot).

There is no generator state, so events can be made in any order, in any partition and by any number of
processes, with the same content. The mixing function is the finaliser of SplitMix64 (Steele, Lea and
Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
"""

import math
from typing import Self

import numpy as np

from nexmark.arrays import FloatArray, IntArray, WordArray

GAMMA = 0x9E3779B97F4A7C15
"""Increment of SplitMix64: 2^64 divided by the golden ratio, made odd."""

_MULTIPLIER_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLIER_2 = np.uint64(0x94D049BB133111EB)
_MASK = (1 << 64) - 1

PRICE_DECADES = 6
"""Prices span 10^6: from 1 to 1 000 000 dollars."""

_ROUNDING_DOUBT = 1e-6
"""Distance (in cents) from a rounding boundary under which a price is computed again by the C library.

Prices end at 10^8 cents, where one unit in the last place is 1.5e-8; vectorised powers are a few such
units away from ``math.pow`` on some processors. 1e-6 is far above that and concerns 2 draws in a million.
"""


def mix_in_place(z: WordArray) -> WordArray:
    """Replaces every word by its SplitMix64 mix and returns the same array."""
    shifted = z >> np.uint64(30)
    z ^= shifted
    z *= _MULTIPLIER_1
    np.right_shift(z, np.uint64(27), out=shifted)
    z ^= shifted
    z *= _MULTIPLIER_2
    np.right_shift(z, np.uint64(31), out=shifted)
    z ^= shifted
    return z


def prices(unit: FloatArray) -> IntArray:
    """``floor(100 * 10^(6 * unit) + 0.5)`` cents for numbers from ``[0, 1)``.

    Equal on every platform to what ``math.pow`` gives: the vectorised power may differ from it in the last
    bits, so the rare values that are that near to a rounding boundary are computed again one by one.
    """
    exponent = unit * float(PRICE_DECADES)
    cents = np.power(10.0, exponent)
    cents *= 100.0
    cents += 0.5
    rounded = np.floor(cents)
    cents -= rounded
    cents -= 0.5
    np.abs(cents, out=cents)
    result = rounded.astype(np.int64)
    for row in np.flatnonzero(cents > 0.5 - _ROUNDING_DOUBT):
        result[row] = math.floor(100.0 * math.pow(10.0, float(exponent[row])) + 0.5)
    return result


class Draws:
    """The random draws of a batch of events, by slot number.

    Every method returns one value per event of the batch.
    """

    __slots__ = ("_base",)

    def __init__(self, base: WordArray) -> None:
        self._base = base

    @classmethod
    def of_events(cls, seed: int, event_ids: IntArray) -> Self:
        """Prepares the draws of ``event_ids`` (each ≥ 0) under ``seed``."""
        base = event_ids.astype(np.uint64)
        base *= np.uint64(GAMMA)
        base += np.uint64((seed + GAMMA) & _MASK)
        return cls(mix_in_place(base))

    def word(self, slot: int) -> WordArray:
        """The 64-bit word of a slot, as a fresh array."""
        return mix_in_place(self._base + np.uint64((GAMMA * (slot + 1)) & _MASK))

    def half_word(self, slot: int) -> IntArray:
        """The upper 63 bits of a slot's word, as non-negative integers."""
        word = self.word(slot)
        word >>= np.uint64(1)
        return word.view(np.int64)

    def below(self, slot: int, limit: int | IntArray) -> IntArray:
        """Integers in ``[0, limit)``; ``limit`` is one number or one per event (each ≥ 1)."""
        return modulo(self.half_word(slot), limit)

    def unit(self, slot: int) -> FloatArray:
        """Floats in ``[0, 1)`` with 53 random bits."""
        word = self.word(slot)
        word >>= np.uint64(11)
        unit = word.view(np.int64).astype(np.float64)
        unit *= 2.0**-53
        return unit

    def price(self, slot: int) -> IntArray:
        """Log-uniform prices in cents, from 100 to 100 000 000."""
        return prices(self.unit(slot))


def modulo(values: IntArray, limit: int | IntArray) -> IntArray:
    """``values mod limit`` for non-negative values.

    NumPy divides by a scalar with vector instructions but has none for the remainder, hence the detour.
    """
    if not isinstance(limit, int):
        return values % limit
    words = values.view(np.uint64)
    quotient = words // np.uint64(limit)
    quotient *= np.uint64(limit)
    return (words - quotient).view(np.int64)
