"""Shares one stream among N generators."""

from typing import Literal, TypeAlias

from nexmark.errors import NexmarkError

SplitMode: TypeAlias = Literal["interleaved", "block"]
"""``interleaved``: generator g takes every N-th event, for live load; ``block``: its own contiguous part,
for preloading."""


def split(total: int, n: int, g: int, mode: SplitMode = "interleaved") -> tuple[int, int, int]:
    """The emission indices that generator ``g`` of ``n`` makes out of the first ``total``.

    All generators share one space of ids, so the union over ``g`` is the stream of one generator.

    Args:
        total: Events of all generators together, at least 0.
        n: Number of generators, at least 1.
        g: This generator, from 0 to ``n - 1``.
        mode: Which events it takes.

    Returns:
        ``(start, count, step)``, the arguments of ``generate``.

    Raises:
        NexmarkError: An argument is out of range.
    """
    if total < 0 or n < 1 or not 0 <= g < n:
        raise NexmarkError(
            f"total={total}, n={n}, g={g} is no share: total must be at least 0, n at least 1, g from 0 to n-1"
        )
    if mode == "interleaved":
        return g, max(0, -(-(total - g) // n)), n
    if mode == "block":
        start = g * total // n
        return start, (g + 1) * total // n - start, 1
    raise NexmarkError(f"unknown mode {mode!r}: use 'interleaved' or 'block'")
