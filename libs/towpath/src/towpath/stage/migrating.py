"""A task that runs while part of its state is still elsewhere: the job, as the replica's loop sees it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec

from statemgr.migration.job import MigrationJob


class Migration:
    """The way of one task's state to this replica.

    Args:
        job: asks the holders and installs what they answer.
        resolved: told the store keys whose state has arrived (or is known to be absent).
        read: what is known of the changelog that is read for it.
    """

    def __init__(
        self,
        job: MigrationJob,
        resolved: Callable[[Sequence[bytes]], None],
        read: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self.job = job
        self._resolved = resolved
        self._read = read

    @property
    def complete(self) -> bool:
        """Whether no other's copy is needed any more."""
        return self.job.complete

    def request(self, keys: Sequence[bytes]) -> None:
        """Fetch these store keys soon: rows wait for them; their bins come next, since more such rows may follow."""
        self.job.request(list(keys))
        self.job.hasten({key[0] for key in keys})

    def advance(self, now_s: float, budget_s: float) -> None:
        """Install what has arrived, and ask for more.

        Args:
            now_s: monotonic seconds.
            budget_s: time for what nobody waits for.
        """
        arrived = self.job.poll(now_s, budget_s)
        if arrived:
            self._resolved(list(arrived))

    def fetch(self, bins: Collection[int]) -> None:
        """Fetch these bins at once: event time has to wait for them."""
        self.job.fetch(bins)

    def hurry(self) -> None:
        """Bring the rest without pacing: a holder wants to leave, or nothing runs before it is there."""
        self.job.hurry()

    def close(self) -> None:
        """Ask and install nothing more."""
        self.job.close()

    def report(self) -> dict[str, Any]:
        """How far it has come, for the coordinator and for people."""
        return {**self._read(), **msgspec.to_builtins(self.job.progress())}
