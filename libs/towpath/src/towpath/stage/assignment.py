"""Which tasks a replica owns when its launcher says so (a static plan)."""

from __future__ import annotations

from dataclasses import dataclass

from towpath.errors import SettingsError

STATIC_EPOCH = 1
"""A static plan never changes owners while it runs, so all its tasks have one epoch."""


@dataclass(frozen=True)
class StaticAssignment:
    """Replica ``index`` of ``count`` owns every task whose partition is ``index`` modulo ``count``."""

    index: int
    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise SettingsError(f"replica count must be at least 1, not {self.count}")
        if not 0 <= self.index < self.count:
            raise SettingsError(f"replica index {self.index} is not within 0 … {self.count - 1}")

    def partitions(self, total: int) -> list[int]:
        """Partitions owned out of ``total``; empty (idle, healthy) where replicas outnumber tasks."""
        return list(range(self.index, total, self.count))
