"""The clocks of simulated processes, and of the broker."""

from __future__ import annotations

from tests.simulation.lanes import Process
from tests.simulation.world import World

START_WALL_MS = 1_700_000_000_000
"""Where wall clocks start."""


class WorldClock:
    """The broker's clock; whoever asks it to move on waits instead."""

    def __init__(self, world: World) -> None:
        self._world = world

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""
        return START_WALL_MS + int(self._world.now_s * 1000)

    def monotonic_s(self) -> float:
        """Seconds since the world began."""
        return self._world.now_s

    def advance(self, seconds: float) -> None:
        """The caller waits."""
        if self._world.current is not None or self._world.closed:
            self._world.sleep(seconds)


class ProcessClock:
    """A process's own clocks: the wall clock may be off and jump, the monotonic one counts from its start."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""
        return START_WALL_MS + int((self._world.now_s + self._process.wall_offset_s) * 1000)

    def monotonic_s(self) -> float:
        """Seconds since the process started."""
        return self._world.now_s - self._process.born_s
