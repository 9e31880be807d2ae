"""What the log says of dead letters: the first of each kind, then counts; 20,000 bad records are no 20,000 lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import structlog

from statemgr.clock import Clock

log = structlog.get_logger()

COUNT_INTERVAL_S = 10.0
"""Shortest time between two reports of counts."""

MAX_KINDS = 100
"""Kinds that are told apart: reasons of user code may be without end, and each kind is a line and 1 kB of memory."""

KIND_CHARS = 200
"""Beginning of a reason that counts for its kind."""

REASON_CHARS = 500
"""Most of a reason that a line holds; the dead letter's header has more."""

OTHERS = "other reasons"
"""The kind of all reasons after the first :data:`MAX_KINDS`."""

_VARYING = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\d+")
"""What differs between two records with the same trouble: quoted words and numbers."""


def kind_of(reason: str) -> str:
    """The reason without what varies from record to record."""
    return _VARYING.sub("*", reason[:KIND_CHARS])


class DeadLetterLog:
    """Says the first dead letter of each kind at once, and how many more there were at most every 10 s."""

    def __init__(self, topic: str, clock: Clock) -> None:
        """``topic``: the dead-letter topic, named in each line."""
        self._topic = topic
        self._clock = clock
        self._first: dict[str, str] = {}
        self._more: Counter[str] = Counter()
        self._reported_s = clock.monotonic_s()

    def note(self, reason: str, origin: Mapping[str, str]) -> None:
        """One more dead letter; ``origin``: where its record came from."""
        kind = kind_of(reason)
        if kind not in self._first and len(self._first) >= MAX_KINDS:
            kind, reason = OTHERS, OTHERS
        if kind in self._first:
            self._more[kind] += 1
            return
        self._first[kind] = reason
        log.warning("dead letter", dead_letter_topic=self._topic, reason=reason[:REASON_CHARS], **origin)

    def report(self, *, last: bool = False) -> None:
        """Say the counts if they are due; ``last``: now, because the replica ends."""
        now_s = self._clock.monotonic_s()
        if not self._more or (not last and now_s - self._reported_s < COUNT_INTERVAL_S):
            return
        for kind, count in self._more.items():
            log.warning("dead letters", dead_letter_topic=self._topic, more=count, reason=self._first[kind])
        self._more.clear()
        self._reported_s = now_s
