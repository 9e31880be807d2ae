"""Occasional delays of single events, to make late data."""

import numpy as np

from nexmark.arrays import IntArray
from nexmark.config import GeneratorConfig
from nexmark.errors import NexmarkError
from nexmark.words import Draws

MAX_DELAY_MS = 3000
"""Longest time an event is held back."""

_DELAY_SLOT, _DELAYED_SLOT = 12, 13


def delays_ms(config: GeneratorConfig, start: int, count: int, step: int = 1, probability: float = 0.1) -> IntArray:
    """Wall-clock milliseconds for which each event is to be held back; event times stay as they are.

    Args:
        config: What determines the stream.
        start: First emission index, at least 0.
        count: Number of events.
        step: Distance between emission indices.
        probability: Share of delayed events, from 0 to 1.

    Returns:
        ``count`` values, 0 or from 1 to ``MAX_DELAY_MS``; like all content a function of seed and event id.

    Raises:
        NexmarkError: An argument is out of range.
    """
    if not 0 <= probability <= 1:
        raise NexmarkError(f"probability={probability} is no share of events: give a number from 0 to 1")
    draws = Draws.of_events(config.seed, config.event_ids(config.emission_indices(start, count, step)))
    delayed = draws.unit(_DELAYED_SLOT) < probability
    return np.where(delayed, 1 + draws.below(_DELAY_SLOT, MAX_DELAY_MS), 0)
