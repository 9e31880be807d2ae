"""Limits of a migration, with their arithmetic."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MigrationLimits:
    """Limits of one task's migration.

    Attributes:
        attempts: failures of a source in a row after which it is left alone for ``retry_s``: one more than by chance.
        patience_s: without any answer of a source for this long a scratch base is made (R21): a state manager that is
            started again needs a second, a busy one answers late, and rebuilding a task costs more than waiting.
        retry_s: pause before a source that failed so often is asked again; it may come back before the scratch base
            is made.
        refused_retry_s: pause before asking a state manager again whose view of the control log is behind.
        refused_s: refusals for this long count as failures, since its view may never catch up.
        grace_s: how long after its own time-out a request counts as lost although the carrier is silent.
        look_up_keys: keys of one look-up: at 100 bytes of key 400 KB, a tenth of what a message may hold.
        look_ups: look-ups under way at once; each is answered by up to 1 MiB.
        stall_s: without any progress for this long the migration says that it has stalled.
        scratch_retry_s: pause before a scratch base that could not be made is tried again.
    """

    attempts: int = 2
    patience_s: float = 2.0
    retry_s: float = 0.25
    refused_retry_s: float = 0.05
    refused_s: float = 1.0
    grace_s: float = 1.0
    look_up_keys: int = 4096
    look_ups: int = 16
    stall_s: float = 30.0
    scratch_retry_s: float = 5.0
