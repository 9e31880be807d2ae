"""Runs a stage's operators over a batch: the context that they see, and what they give for each output topic."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from statemgr.state import TaskState
from towpath.query.plan import StagePlan
from towpath.stage.deadletter import DeadLetters
from towpath.stage.metrics import StageMetrics

PASS = "pass"  # noqa: S105 - a name, not a secret
"""Name under which a stage without operators is measured."""


class OperatorChain:
    """The operators of one replica, made for one time of ownership; it is the context that they are given."""

    def __init__(
        self, plan: StagePlan, tasks: Mapping[int, TaskState], dead_letters: DeadLetters, metrics: StageMetrics
    ) -> None:
        self.tasks = tasks
        self._operators = [(item.name, item.make()) for item in plan.operators]
        self._defaults = [output.topic for output in plan.outputs if output.default]
        self._topics = {output.topic for output in plan.outputs}
        self._dead_letters = dead_letters
        self._metrics = metrics
        self._emitted: list[tuple[str, pl.DataFrame]] = []

    @property
    def first(self) -> str:
        """Name of the first operator."""
        return self._operators[0][0] if self._operators else PASS

    def run(self, frame: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
        """Process a batch.

        Returns:
            Topic and rows, in the order in which they are to be written.
        """
        self._emitted = []
        for name, operator in self._operators:
            with self._metrics.operator(name, frame.height):
                frame = operator.process(frame, self)
            self._metrics.left(name, frame.height)
        return self._emitted + [(topic, frame) for topic in self._defaults]

    def dead_letter(self, partition: int, value: bytes, reason: str) -> None:
        """See :class:`towpath.query.plan.OperatorContext`."""
        self._dead_letters.row(partition, value, reason)

    def emit(self, topic: str, frame: pl.DataFrame) -> None:
        """See :class:`towpath.query.plan.OperatorContext`."""
        if topic not in self._topics:
            raise LookupError(f"the stage has no output {topic!r}; its outputs: {', '.join(sorted(self._topics))}")
        self._emitted.append((topic, frame))
