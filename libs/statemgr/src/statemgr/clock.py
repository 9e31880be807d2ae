"""Time as a parameter: wall clock and monotonic clock are separate and injected."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What the runtime asks of time."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch; may jump."""
        ...

    def monotonic_s(self) -> float:
        """Seconds of a clock that never goes back."""
        ...


class SystemClock:
    """The machine's clocks."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary start."""
        return time.monotonic()
