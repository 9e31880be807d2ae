"""How long a restore waits, as pure arithmetic on times that it is told."""

from __future__ import annotations

from enum import Enum, auto


class Verdict(Enum):
    """What to do about the time that has passed."""

    GO_ON = auto()
    READ_ANEW = auto()
    STALLED = auto()
    TOO_SLOW = auto()


class Patience:
    """Deadlines of one restore; all times are monotonic seconds.

    After half of the stall time-out without progress the reader is replaced once, since a position that stays
    invalid is a fault of the client at least as often as of the broker; after all of it the restore has stalled.

    Args:
        now_s: when the restore begins.
        stall_timeout_s: time without progress that ends it.
        limit_s: time that it may take altogether, because after it deletes may have left the log unseen (R12).
    """

    def __init__(self, now_s: float, stall_timeout_s: float, limit_s: float) -> None:
        self._began_s = now_s
        self._moved_s = now_s
        self._stall_timeout_s = stall_timeout_s
        self.limit_s = limit_s
        self._read_anew = False

    def moved(self, now_s: float) -> None:
        """There was progress."""
        self._moved_s = now_s
        self._read_anew = False

    def still_for(self, now_s: float) -> float:
        """Seconds since the last progress."""
        return now_s - self._moved_s

    def verdict(self, now_s: float) -> Verdict:
        """What to do now; READ_ANEW is said once per standstill."""
        still_s = self.still_for(now_s)
        if still_s >= self._stall_timeout_s:
            return Verdict.STALLED
        if now_s - self._began_s > self.limit_s:
            return Verdict.TOO_SLOW
        if still_s >= self._stall_timeout_s / 2 and not self._read_anew:
            self._read_anew = True
            return Verdict.READ_ANEW
        return Verdict.GO_ON
