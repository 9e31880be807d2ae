"""A clock that moves only when it is told to."""

from __future__ import annotations

from typing import Protocol

from statemgr.clock import Clock


class MovableClock(Clock, Protocol):
    """A clock that whoever waits moves on."""

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        ...


class ManualClock:
    """Wall and monotonic time under a test's control.

    Args:
        wall_ms: where the wall clock starts, in milliseconds since the epoch.
    """

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self._wall_ms = float(wall_ms)
        self._monotonic_s = 0.0

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""
        return int(self._wall_ms)

    def monotonic_s(self) -> float:
        """Seconds since the clock was made; never goes back."""
        return self._monotonic_s

    def advance(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            ValueError: ``seconds`` is negative.
        """
        if seconds < 0:
            raise ValueError(f"a clock does not go back by itself (asked for {seconds} s); use jump_wall()")
        self._monotonic_s += seconds
        self._wall_ms += seconds * 1000

    def jump_wall(self, seconds: float) -> None:
        """Set the wall clock forward or back, as a time server does; the monotonic clock goes on."""
        self._wall_ms += seconds * 1000
