"""Traces of moves: the coordinator begins and ends them, and says in which trace everybody's spans belong.

Where it begins anew, spans of others still find each other by the context in the log; only what itself would have said
is missing.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from statemgr.clock import Clock
from statemgr.control.records import Assigned
from towpath.coordinator.moves import Move
from towpath.tracing.spans import Spans


class MoveTraces:
    """The coordinator's part.

    Args:
        spans: where spans go.
        clock: time.
    """

    def __init__(self, spans: Spans, clock: Clock) -> None:
        self._spans = spans
        self._clock = clock
        self._begun_s: dict[str, float] = {}

    def plan(self, move: Move) -> None:
        """A move is hinted at."""
        move.trace = self._begin(move.task.stage, str(move.task), move.epoch, move.target, move.why, str(move.strategy))

    def assign(self, record: Assigned, why: str, planned: Move | None) -> Assigned:
        """The assignment with its trace: that of the hint, or a new one where nothing was hinted at.

        Args:
            record: what is to be logged.
            why: for people.
            planned: the move that was hinted at; None: none was.
        """
        if planned is not None and planned.epoch == record.epoch:
            trace = planned.trace
        elif record.epoch > 1:
            strategy = str(record.manner.strategy)
            trace = self._begin(record.stage, str(record.task), record.epoch, record.owner, why, strategy)
        else:
            return record  # its first owner takes it from nobody
        return msgspec.structs.replace(record, trace=trace) if trace else record

    def logged(self, records: Sequence[Assigned]) -> None:
        """Assignments are in the log."""
        now_s = self._clock.monotonic_s()
        for record in records:
            begun_s = self._begun_s.pop(record.trace, now_s)
            self._spans.span(
                "decision", record.trace, begun_s, now_s, task=str(record.task), epoch=record.epoch, owner=record.owner
            )

    def ended(self, move: Move) -> None:
        """A move is over."""
        self._begun_s.pop(move.trace, None)
        self._spans.end(move.trace, outcome=str(move.step))

    def _begin(self, stage: str, task: str, epoch: int, owner: str, why: str, strategy: str) -> str:
        trace = self._spans.begin(
            "hand-over", stage=stage, task=task, epoch=epoch, owner=owner, why=why, strategy=strategy
        )
        if trace:
            self._begun_s[trace] = self._clock.monotonic_s()
        return trace
