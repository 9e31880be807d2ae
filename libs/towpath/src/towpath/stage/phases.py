"""The life of a replica as a state machine.

::

    starting ──▶ fencing ──▶ restoring ──▶ running ──▶ stopping ──▶ stopped
       │           ▲  │          │            │           │
       │           │  └──────────┴────────────┤ (asked to stop, in every phase)
       │           └── producer lost (R4) ────┘
       └── any phase ──▶ failed: an error that needs an operator's decision
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from towpath.errors import IllegalTransitionError


class Phase(StrEnum):
    """Where a replica stands."""

    STARTING = "starting"
    FENCING = "fencing"
    RESTORING = "restoring"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


_LEGAL: dict[Phase, frozenset[Phase]] = {
    Phase.STARTING: frozenset({Phase.FENCING, Phase.STOPPING, Phase.FAILED}),
    Phase.FENCING: frozenset({Phase.FENCING, Phase.RESTORING, Phase.STOPPING, Phase.FAILED}),
    Phase.RESTORING: frozenset({Phase.FENCING, Phase.RUNNING, Phase.STOPPING, Phase.FAILED}),
    Phase.RUNNING: frozenset({Phase.FENCING, Phase.STOPPING, Phase.FAILED}),
    Phase.STOPPING: frozenset({Phase.STOPPED, Phase.FAILED}),
    Phase.STOPPED: frozenset(),
    Phase.FAILED: frozenset(),
}


class PhaseMachine:
    """Holds the phase and refuses what the picture does not allow."""

    def __init__(self, on_change: Callable[[Phase], None] | None = None) -> None:
        self._phase = Phase.STARTING
        self._on_change = on_change

    @property
    def phase(self) -> Phase:
        """The current phase."""
        return self._phase

    def to(self, phase: Phase) -> None:
        """Go to a phase.

        Raises:
            IllegalTransitionError: the picture has no such arrow.
        """
        if phase not in _LEGAL[self._phase]:
            raise IllegalTransitionError(f"a replica can't go from {self._phase} to {phase}")
        self._phase = phase
        if self._on_change is not None:
            self._on_change(phase)
