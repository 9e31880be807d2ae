"""Figures of the coordinator for Prometheus."""

from __future__ import annotations

from collections import Counter as Counts

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from towpath.coordinator import views
from towpath.coordinator.facts import Facts
from towpath.coordinator.moves import Move, Step
from towpath.figures import Figure, Figures

_FENCE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class CoordinatorMetrics:
    """All figures, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.leading = Gauge("towpath_coordinator_leading", "1 while it leads", registry=self.registry)
        self.term = Gauge("towpath_coordinator_term", "Term of the newest coordinator", registry=self.registry)
        self.replicas = Gauge("towpath_replicas", "Replicas by presence", ["stage", "presence"], registry=self.registry)
        self.tasks = Gauge("towpath_tasks", "Tasks by owner", ["stage", "replica"], registry=self.registry)
        self.incomplete = Gauge(
            "towpath_tasks_incomplete", "Tasks whose state is not all there yet", ["stage"], registry=self.registry
        )
        self.moves = Gauge("towpath_moves_active", "Moves under way by step", ["step"], registry=self.registry)
        self.stalled = Gauge("towpath_moves_stalled", "Moves that are stuck", ["stage"], registry=self.registry)
        self.assignments = Figure(Counter("towpath_assignments", "Tasks assigned", ["why"], registry=self.registry))
        self.fences = Figure(Counter("towpath_fences", "Replicas fenced", ["stage"], registry=self.registry))
        failures = Counter("towpath_fence_failures", "Fences not done in time", registry=self.registry)
        self.fence_failures = Figure(failures)
        seconds = Histogram(
            "towpath_fence_seconds", "Time that a fence took", buckets=_FENCE_BUCKETS, registry=self.registry
        )
        self.fence_seconds = Figure(seconds)
        make = Figures({}, self.registry)
        make.process()
        self._moved = make.counters("towpath_moves", "Moves that have ended", "stage", "strategy", "outcome")
        self._phase = make.distributions(
            "towpath_move_phase_seconds", "Time of a phase of a move", "stage", "strategy", "phase"
        )
        self._pause = make.distributions(
            "towpath_move_pause_seconds", "Assignment of a task until its new owner runs it", "stage", "strategy"
        )
        self._lag = make.gauges("towpath_stage_lag_records", "Input offsets not read yet, of all tasks", "stage")
        self._committed_lag = make.gauges(
            "towpath_stage_committed_lag_records", "Input offsets not committed yet, of all tasks", "stage"
        )
        self._unheard = make.gauges("towpath_stage_tasks_unheard", "Tasks whose lag is not known now", "stage")

    def moved(self, move: Move) -> None:
        """A move has ended."""
        stage, strategy = move.task.stage, str(move.strategy)
        self._moved.of(stage, strategy, str(move.step)).inc()
        phases = move.phases
        for phase, seconds in phases.items():
            self._phase.of(stage, strategy, phase).add_one(seconds)
        if "take_over" in phases:
            self._pause.of(stage, strategy).add_one(phases["release"] + phases["take_over"])

    def refresh(self, facts: Facts, *, leading: bool) -> None:
        """Set what is known only when somebody asks; series of what is gone disappear."""
        self.leading.set(leading)
        self.term.set(facts.view.term)
        steps = Counts(move.step for move in facts.moves)
        for step in Step:
            if not step.ended:
                self.moves.labels(str(step)).set(steps[step])
        for gauge in (self.replicas, self.tasks, self.incomplete):
            gauge.clear()
        stalled = Counts(move.stage for move in views.stalled_moves(facts))
        for stage in facts.stages.values():
            self.stalled.labels(stage.name).set(stalled[stage.name])
            self.incomplete.labels(stage.name).set(views.incomplete(facts, stage))
            self._refresh_stage(facts, stage.name)

    def _refresh_stage(self, facts: Facts, stage: str) -> None:
        for replica, _ in facts.fleet.of_stage(stage):
            self.replicas.labels(stage, str(facts.presence(stage, replica))).inc()
        for owner, count in Counts(facts.owners(stage).values()).items():
            self.tasks.labels(stage, owner).set(count)
        lag = views.stage_lag(facts, facts.stages[stage])
        self._lag.of(stage).set(lag.read)
        self._committed_lag.of(stage).set(lag.committed)
        self._unheard.of(stage).set(lag.unheard)
