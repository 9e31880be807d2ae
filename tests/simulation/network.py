"""Messages between processes: late, lost, twice, out of order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.world import World


@dataclass
class Weather:
    """How messages fare.

    Attributes:
        lost: probability that one is lost.
        twice: probability that one arrives twice.
        slow: probability that one takes up to ``slow_s`` instead of ``quick_s``, and so is overtaken.
        quick_s: usual longest time under way.
        slow_s: longest time under way.
    """

    lost: float = 0.0
    twice: float = 0.0
    slow: float = 0.0
    quick_s: float = 0.004
    slow_s: float = 2.0


@dataclass
class Network:
    """Carries closures; what they do happens at the receiver.

    Attributes:
        weather: for all messages.
        cut: names that no message reaches or leaves.
    """

    world: World
    weather: Weather = field(default_factory=Weather)
    cut: set[str] = field(default_factory=set)

    def send(self, source: str, target: str, deliver: Callable[[], None]) -> None:
        """Carry a message; it arrives after a while, or never, or more than once."""
        rng = self.world.rng
        if source in self.cut or target in self.cut or rng.random() < self.weather.lost:
            return
        for _ in range(2 if rng.random() < self.weather.twice else 1):
            self.world.after(self._under_way_s(), lambda: self._arrive(target, deliver))

    def _under_way_s(self) -> float:
        rng = self.world.rng
        longest = self.weather.slow_s if rng.random() < self.weather.slow else self.weather.quick_s
        return 0.0002 + rng.random() * longest

    def _arrive(self, target: str, deliver: Callable[[], None]) -> None:
        if target not in self.cut:
            deliver()
