"""What a table's changelog says in the end, which is what any worker would recover: to be compared with the feed."""

from __future__ import annotations

import json
from typing import Any

from tests.harness.topics import read_topic


def counts_in(bootstrap: str, changelog: str) -> dict[int, int]:
    """Key → count, of a table of counts."""
    found: dict[int, int] = {}
    for message in read_topic(bootstrap, changelog, read_committed=False):
        assert message.key is not None and message.value is not None
        found[int(json.loads(message.key))] = json.loads(message.value)
    return found


def windows_in(bootstrap: str, changelog: str) -> dict[tuple[int, float], int]:
    """Key and start of a window → count, of a table of windows."""
    found: dict[tuple[int, float], int] = {}
    for message in read_topic(bootstrap, changelog, read_committed=False):
        assert message.key is not None and message.value is not None
        key, (start, _end) = json.loads(message.key)
        found[int(key), start] = json.loads(message.value)
    return found


def sets_in(bootstrap: str, changelog: str) -> dict[int, set[Any]]:
    """Key → members, of a table of sets: its changelog says what was added and taken away."""
    found: dict[int, set[Any]] = {}
    for message in read_topic(bootstrap, changelog, read_committed=False):
        assert message.key is not None and message.value is not None
        operation, key = json.loads(message.key)
        members, value = found.setdefault(int(key), set()), json.loads(message.value)
        if operation == 1:
            members.add(value)
        elif operation == 2:
            members.discard(value)
        else:
            members |= set(value[0])
            members -= set(value[1])
    return found
