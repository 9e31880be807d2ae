"""What a migration tells of itself."""

from __future__ import annotations

import msgspec

RATE_WINDOW_S = 1.0
"""The rate is that of about the last second of work."""


class MigrationProgress(msgspec.Struct, frozen=True):
    """How far a task's state has come.

    Attributes:
        phase: what is being done, in words.
        hot_keys: keys of the hot set that have come.
        bins_done: bins that need no other copy any more.
        bins_total: bins of the task.
        entries: entries that have come with bins.
        bytes: keys and values that have come with the hot set and bins, and values that look-ups brought; what was
            dropped or read again counts each time, a key filter does not.
        look_ups: look-ups sent.
        keys_fetched: keys whose state look-ups brought.
        keys_waiting: keys that somebody waits for now.
        keys_asked: keys of which it was asked whether their state is here.
        local_hits: how many of those were here.
        rate: bytes per second, lately.
        started_s: monotonic seconds when the migration began.
        stalled: why nothing moves; None while something does.
        keys_excluded: keys that the former owner's filter told to be absent, without a look-up.
    """

    phase: str
    hot_keys: int
    bins_done: int
    bins_total: int
    entries: int
    bytes: int
    look_ups: int
    keys_fetched: int
    keys_waiting: int
    keys_asked: int
    local_hits: int
    rate: float
    started_s: float
    stalled: str | None
    keys_excluded: int = 0


class Rate:
    """Bytes per second over about the last :data:`RATE_WINDOW_S`."""

    def __init__(self, now_s: float) -> None:
        self._since_s = now_s
        self._bytes = 0
        self.value = 0.0

    def note(self, total_bytes: int, now_s: float) -> None:
        """So many bytes have come until now."""
        passed_s = now_s - self._since_s
        if passed_s >= RATE_WINDOW_S:
            self.value = (total_bytes - self._bytes) / passed_s
            self._since_s, self._bytes = now_s, total_bytes


class Pace:
    """Leaves the owner its time: after work of d seconds the next begins d · (1/share − 1) seconds later.

    Args:
        share: part of the time that the work may take, above 0 and at most 1.
    """

    def __init__(self, share: float) -> None:
        self._pause = 1 / share - 1
        self._not_before_s = float("-inf")

    def worked(self, now_s: float, took_s: float) -> None:
        """Work of ``took_s`` seconds has ended."""
        self._not_before_s = max(self._not_before_s, now_s) + took_s * self._pause

    def may_work(self, now_s: float) -> bool:
        """Whether more may begin."""
        return now_s >= self._not_before_s
