"""Carries out what was decided: records into the control log, fences, hints into memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import structlog

from statemgr.control.records import Assigned, Fenced
from towpath.coordinator.control_writer import ControlWriter
from towpath.coordinator.decide import Assign, Decision, Drop, FailReplica, Plan
from towpath.coordinator.errors import FenceError
from towpath.coordinator.fencer import FENCE_TIMEOUT_S, Fencer
from towpath.coordinator.limits import Limits
from towpath.coordinator.metrics import CoordinatorMetrics
from towpath.coordinator.moves import Moves
from towpath.coordinator.traces import MoveTraces

log = structlog.get_logger()

FENCES_S = FENCE_TIMEOUT_S
"""No fence begins later in a turn: one that hangs ends the turn's fences, and those that never were tried come first in
the next."""


class Actions:
    """The edge of the decisions.

    Args:
        writer: writes the control log.
        fencer: fences replicas.
        moves: takes the hints; touched under ``lock`` only.
        lock: guards the memory against threads that answer heartbeats; never held during input or output.
        monotonic_s: time.
        limits: deadlines.
        metrics: figures.
        traces: of the moves.
    """

    def __init__(
        self,
        writer: ControlWriter,
        fencer: Fencer,
        moves: Moves,
        lock: AbstractContextManager[object],
        monotonic_s: Callable[[], float],
        limits: Limits,
        metrics: CoordinatorMetrics,
        traces: MoveTraces,
    ) -> None:
        self._traces = traces
        self._writer = writer
        self._fencer = fencer
        self._moves = moves
        self._lock = lock
        self._monotonic_s = monotonic_s
        self._limits = limits
        self._metrics = metrics
        self._not_before_s: dict[tuple[str, str], float] = {}

    def carry_out(self, decisions: Sequence[Decision], term: int) -> None:
        """Carry out the decisions of a turn; fences, which may take long, come last.

        Raises:
            ProducerLostError: the control log can't be written any more.
        """
        failures: list[FailReplica] = []
        for decision in decisions:
            match decision:
                case Plan(move):
                    with self._lock:
                        self._traces.plan(move)
                        self._moves.plan(move, self._monotonic_s())
                case Drop(task):
                    with self._lock:
                        self._moves.drop(task, self._monotonic_s())
                case Assign(records, why):
                    self._assign(records, why)
                case FailReplica():
                    failures.append(decision)
        self._fail(failures, term)

    def _assign(self, records: Sequence[Assigned], why: str) -> None:
        with self._lock:
            prepared = self._moves.prepared
            records = [self._traces.assign(record, why, prepared.get(record.task)) for record in records]
            for record in records:
                self._moves.explain(record, why)
        self._writer.write(records)
        self._traces.logged(records)
        self._metrics.assignments.labels(why).inc(len(records))
        for record in records:
            log.info("assigned", task=str(record.task), epoch=record.epoch, owner=record.owner, why=why)

    def _fail(self, decisions: Sequence[FailReplica], term: int) -> None:
        """Intent, fence, fenced, in this order (R3); what is left undone is seen from the log by the next turn.

        No intent waits for another's fence, and fences that hang keep none of the others from its turn for long.
        """
        began_s = self._monotonic_s()
        due = [decision for decision in decisions if decision.records or self._not_before(decision) <= began_s]
        for decision in decisions:
            if decision.records:
                log.warning("replica failed", stage=decision.stage, replica=decision.replica, reason=decision.reason)
                self._assign(decision.records, "failure")
        for decision in sorted(due, key=self._not_before):
            if self._monotonic_s() - began_s < FENCES_S:
                self._fence(decision, term)

    def _not_before(self, decision: FailReplica) -> float:
        return self._not_before_s.get((decision.stage, decision.replica), float("-inf"))

    def _fence(self, decision: FailReplica, term: int) -> None:
        key = decision.stage, decision.replica
        try:
            took_s = self._fencer.fence(*key)
        except FenceError as error:
            self._not_before_s[key] = self._monotonic_s() + self._limits.fence_retry_s
            self._metrics.fence_failures.inc()
            log.error(  # noqa: TRY400 - one line, by intent
                "a replica could not be fenced, trying again",
                stage=decision.stage,
                replica=decision.replica,
                cause=str(error),
            )
            return
        self._not_before_s.pop(key, None)
        self._writer.write([Fenced(decision.stage, decision.replica, term)])
        self._metrics.fences.labels(decision.stage).inc()
        self._metrics.fence_seconds.observe(took_s)
        log.info("fenced", stage=decision.stage, replica=decision.replica, seconds=round(took_s, 3))
