"""The earliest timers of state that is still with a former owner, by bin: what holds a watermark, and is fetched first.

The former owner tells them when it lets go of the task (R14). Where nobody does, because it died, event time stands
still until all state is here, which is then fetched as soon as anything is due.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from statemgr.watermarks import NEVER


class AbsentTimers:
    """Those of one task.

    Args:
        earliest: bin → its earliest timer at the cut, in ms of event time, or less; bins without one are left out.
            None: nobody knows.
    """

    def __init__(self, earliest: Mapping[int, int] | None = None) -> None:
        self._known = earliest is not None
        self._order = sorted((time_ms, bin_) for bin_, time_ms in (earliest or {}).items())
        self._first = 0
        self._asked = 0

    def earliest(self, open_bins: Collection[int]) -> int | None:
        """The earliest timer that may be elsewhere; None: there is none.

        Args:
            open_bins: bins that are incomplete; one that is complete does not become incomplete again.
        """
        if not self._known:
            return NEVER if open_bins else None
        while self._first < len(self._order) and self._order[self._first][1] not in open_bins:
            self._first += 1
        return self._order[self._first][0] if self._first < len(self._order) else None

    def newly_due(self, watermark_ms: int, open_bins: Collection[int]) -> list[int]:
        """Incomplete bins whose timers the watermark has reached, each told once, earliest first."""
        if not self._known:
            found = sorted(open_bins) if watermark_ms > NEVER and not self._asked else []
            self._asked += len(found)
            return found
        begin = self._asked
        while self._asked < len(self._order) and self._order[self._asked][0] <= watermark_ms:
            self._asked += 1
        return [bin_ for _, bin_ in self._order[begin : self._asked] if bin_ in open_bins]

    def by_bin(self, open_bins: Collection[int]) -> dict[int, int] | None:
        """Those of incomplete bins, for the next owner; None: nobody knows."""
        if not self._known and open_bins:
            return None
        return {bin_: time_ms for time_ms, bin_ in self._order if bin_ in open_bins}
