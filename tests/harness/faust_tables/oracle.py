"""What a table's changelog says in the end, which is what any worker would recover: to be compared with the feed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.harness.topics import read_topic

ADD, DISCARD = 1, 2


def counts_in(bootstrap: str, changelog: str) -> dict[int, int]:
    """Key → count, of a table of counts."""
    return {int(key): value for key, value in _records(bootstrap, changelog)}


def counts_are(expected: npt.NDArray[np.int64], bootstrap: str, changelog: str) -> bool:
    """Whether a table of counts has these, by key; keys without events are not in it."""
    counts = counts_in(bootstrap, changelog)
    found = np.fromiter((counts.get(key, 0) for key in range(len(expected))), np.int64)
    return bool((found == expected).all())


def windows_in(bootstrap: str, changelog: str) -> dict[tuple[int, float], int]:
    """Key and start of a window → count, of a table of windows."""
    return {(int(key), window[0]): value for (key, window), value in _records(bootstrap, changelog)}


def sets_in(bootstrap: str, changelog: str) -> dict[int, set[Any]]:
    """Key → members, of a table of sets: its changelog says what was added and taken away."""
    found: dict[int, set[Any]] = {}
    for (operation, key), value in _records(bootstrap, changelog):
        members = found.setdefault(int(key), set())
        if operation == ADD:
            members.add(value)
        elif operation == DISCARD:
            members.discard(value)
        else:
            added, removed = value
            members |= set(added)
            members -= set(removed)
    return found


def _records(bootstrap: str, changelog: str) -> Iterator[tuple[Any, Any]]:
    for message in read_topic(bootstrap, changelog, read_committed=False):
        key, value = message.key(), message.value()
        assert key is not None and value is not None
        yield json.loads(key), json.loads(value)
