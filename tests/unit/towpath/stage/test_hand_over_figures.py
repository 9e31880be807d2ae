"""What figures, log lines and traces say of hand-overs, on a whole cluster in memory."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from statemgr.control.records import Assigned, Manner, Strategy
from tests.unit.towpath.stage.cluster import STAGE, TASKS, Cluster, Node, rows_of
from tests.unit.towpath.stage.figures_of import figure, labels_of
from tests.unit.towpath.stage.under_input import grown, left, moved_to_b, moves, running, work
from towpath.coordinator.views import migration_statuses
from towpath.stage.hand_over import LOOK_S
from towpath.tracing.otel import OtelSpans

pytestmark = pytest.mark.slow

PHASES = "towpath_migration_phase_seconds_count"


def shown(node: Node, name: str, **labels: str) -> float:
    return figure(node.metrics.registry, name, **labels) or 0.0


def phases(node: Node) -> set[str]:
    return labels_of(node.metrics.registry, PHASES, "phase")


def of_coordinator(cluster: Cluster, name: str, **labels: str) -> float:
    with cluster.coordinator.look() as facts:
        cluster.coordinator.metrics.refresh(facts, leading=True)
    return figure(cluster.coordinator.metrics.registry, name, **labels) or 0.0


def finished(strategy: Strategy, **more: Any) -> tuple[Cluster, int]:
    """A cluster whose second replica has taken two of the tasks, with all of their state; how many moved."""
    cluster, _, assigned = moved_to_b(Manner(strategy=strategy, bins=16), **more)
    cluster.hurry()
    work(cluster, cluster.settled)
    cluster.write(rows_of(range(400)))
    cluster.rest()
    end_s = cluster.clock.monotonic_s() + 2 * LOOK_S
    cluster.until("what is told once a second has been told", lambda: cluster.clock.monotonic_s() >= end_s)
    return cluster, sum(record.owner == "b" for record in assigned)


def test_a_hybrid_hand_over_tells_phases_bytes_look_ups_and_the_local_share() -> None:
    cluster, moved = finished(Strategy.HYBRID)
    old, new = cluster.nodes["a"], cluster.nodes["b"]
    assert moved == 2
    assert shown(new, "towpath_migrations_total", strategy="hybrid") == moved
    assert phases(new) == {"waiting", "opening", "filling", "first_output", "background"}
    assert phases(old) == {"release"}
    for phase in phases(new):
        assert shown(new, PHASES, strategy="hybrid", phase=phase) == moved, phase
    assert shown(old, PHASES, strategy="hybrid", phase="release") == moved
    assert shown(new, "towpath_migration_look_ups_total") > 0
    asked = shown(new, "towpath_migration_keys_asked_total")
    assert 0 < shown(new, "towpath_migration_keys_local_total") <= asked
    live = sum(len(key) + len(value) for key, value in moved_entries(cluster, "b"))
    assert live <= shown(new, "towpath_migration_bytes_total") < 2 * live + 10_000


def moved_entries(cluster: Cluster, name: str) -> Iterator[tuple[bytes, bytes]]:
    for task in cluster.nodes[name].replica.owned.values():
        assert task.state is not None
        with task.state.store.scan() as entries:
            yield from list(entries)


@pytest.mark.parametrize("strategy", Strategy)
def test_every_strategy_tells_when_a_task_has_come_and_when_it_put_something_out(strategy: Strategy) -> None:
    cluster, moved = finished(strategy)
    new = cluster.nodes["b"]
    assert shown(new, "towpath_migrations_total", strategy=str(strategy)) >= moved
    assert shown(new, PHASES, strategy=str(strategy), phase="first_output") >= moved
    from_others = shown(new, "towpath_migration_bytes_total", strategy=str(strategy))
    assert (from_others > 0) == (strategy not in {Strategy.REPLAY, Strategy.RESTART})


def test_bytes_of_a_copy_that_was_made_before_the_move_are_counted_once() -> None:
    cluster, _ = finished(Strategy.PRECOPY)
    live = sum(len(key) + len(value) for key, value in moved_entries(cluster, "b"))
    assert live / 2 < shown(cluster.nodes["b"], "towpath_migration_bytes_total", strategy="precopy") < 1.5 * live


def test_rows_that_wait_for_state_are_shown_and_gone_when_it_has_come() -> None:
    cluster, _, _ = moved_to_b(Manner(strategy=Strategy.LAZY))
    cluster.cut.add("a")  # nobody answers
    cluster.write(rows_of(range(400)))
    new = cluster.nodes["b"]
    cluster.until("rows wait", lambda: shown(new, "towpath_waiting_rows") > 0)
    cluster.cut.clear()
    cluster.rest()
    cluster.until("none waits", lambda: shown(new, "towpath_waiting_rows") == 0)


def test_a_task_that_never_has_input_is_not_watched_for_ever() -> None:
    cluster = grown(Manner())
    cluster.add("b")
    cluster.until("b runs tasks", running(cluster, "a", "b"))
    new = cluster.nodes["b"]
    assert all(task.silent for task in new.replica.owned.values())
    end_s = cluster.clock.monotonic_s() + 65
    cluster.until("it is given up", lambda: cluster.clock.monotonic_s() >= end_s, 70)
    assert not any(task.silent for task in new.replica.owned.values())
    assert "first_output" not in phases(new)


def test_a_first_assignment_and_an_own_task_after_a_fence_are_no_hand_overs() -> None:
    cluster = grown(Manner())
    node = cluster.nodes["a"]
    node.replica.drop("a test")
    cluster.settle()
    cluster.write(rows_of(range(50)))
    cluster.rest()
    assert (shown(node, "towpath_migrations_total"), phases(node)) == (0.0, set())


def test_the_log_says_what_a_hand_over_came_to() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    with capture_logs() as lines:
        finished(Strategy.HYBRID)
    said = [line for line in lines if line["event"] == "all state is here"]
    assert len(said) == 2
    assert all(line["task"].startswith("count/") and line["epoch"] == 2 and line["bytes"] > 0 for line in said)
    assert {line["task"] for line in lines if line["event"] == "owns" and line["epoch"] == 2} == {
        line["task"] for line in said
    }


# --- the coordinator ---


def test_the_coordinator_counts_moves_with_their_phases_and_pauses() -> None:
    cluster, moved = finished(Strategy.HYBRID)
    of = {"stage": STAGE, "strategy": "hybrid"}
    assert of_coordinator(cluster, "towpath_moves_total", outcome="done", **of) == moved
    for phase in ("prepare", "release", "take_over", "background"):
        assert of_coordinator(cluster, "towpath_move_phase_seconds_count", phase=phase, **of) == moved
    assert of_coordinator(cluster, "towpath_move_pause_seconds_count", **of) == moved
    pause = of_coordinator(cluster, "towpath_move_pause_seconds_sum", **of)
    parts = [of_coordinator(cluster, "towpath_move_phase_seconds_sum", phase=p, **of) for p in ("release", "take_over")]
    assert pause == pytest.approx(sum(parts))


def test_the_coordinator_adds_up_lags_and_says_of_how_many_tasks_it_knows_none() -> None:
    cluster = grown(Manner())
    assert of_coordinator(cluster, "towpath_stage_tasks_unheard", stage=STAGE) == 0
    cluster.nodes["a"].asleep = True
    cluster.write(rows_of(range(100)))
    cluster.nodes["a"].asleep = False
    cluster.nodes["a"].stuck = True
    cluster.step()
    cluster.nodes["a"].stuck = False
    seen = set()
    for _ in range(300):
        cluster.step()
        seen.add(of_coordinator(cluster, "towpath_stage_committed_lag_records", stage=STAGE))
    assert of_coordinator(cluster, "towpath_stage_committed_lag_records", stage=STAGE) == 0
    assert of_coordinator(cluster, "towpath_stage_lag_records", stage=STAGE) == 0
    cluster.nodes["a"].asleep = True
    end_s = cluster.clock.monotonic_s() + 4
    cluster.until("a is silent", lambda: cluster.clock.monotonic_s() >= end_s)
    assert of_coordinator(cluster, "towpath_stage_tasks_unheard", stage=STAGE) == TASKS


def test_a_move_that_has_ended_keeps_what_was_said_of_it() -> None:
    cluster, moved = finished(Strategy.HYBRID)
    with cluster.coordinator.look() as facts:
        ended = [move for move in migration_statuses(facts) if not move.active]
    assert len(ended) == moved
    for move in ended:
        assert set(move.phases) == {"prepare", "release", "take_over", "background"}
        assert move.progress is not None
        assert move.progress["bytes"] > 0
        assert {"waiting", "opening", "first_output", "background"} <= set(move.progress["phases"])


# --- traces ---


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


def traced(exporter: InMemorySpanExporter) -> Any:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return lambda clock: OtelSpans(provider, clock)


def spans_by_trace(exporter: InMemorySpanExporter) -> list[dict[str, Any]]:
    """Name → span, for every trace."""
    found: dict[int, dict[str, Any]] = {}
    for span in exporter.get_finished_spans():
        trace = found.setdefault(span.context.trace_id, {})
        assert span.name not in trace, f"{span.name} is there twice in one trace"
        trace[span.name] = span
    return list(found.values())


def test_coordinator_old_and_new_replica_share_one_trace_a_hand_over(exporter: InMemorySpanExporter) -> None:
    cluster = grown(Manner(strategy=Strategy.HYBRID, bins=16), spans=traced(exporter))
    mark = cluster.journal.mark
    cluster.add("b")
    work(cluster, running(cluster, "a", "b"))
    moved = moves(cluster, mark)
    work(cluster, cluster.settled)
    for _ in range(20):
        cluster.step()
    traces = spans_by_trace(exporter)
    assert len(traces) == len(moved) == 2
    names = {"hand-over", "decision", "prepare", "release", "take-over", "first output", "background copy", "done"}
    for trace in traces:
        assert set(trace) == names
        root = trace["hand-over"]
        assert root.parent is None
        assert all(span.parent.span_id == root.context.span_id for span in trace.values() if span is not root)
        assert {span.attributes["task"] for span in trace.values()} == {root.attributes["task"]}
        assert trace["release"].attributes["replica"] == "a"
        assert {trace[name].attributes["replica"] for name in ("prepare", "take-over", "background copy")} == {"b"}
        assert root.attributes["outcome"] == "done"
        assert trace["background copy"].attributes["bytes"] > 0
        starts = [trace[name].start_time for name in ("hand-over", "prepare", "take-over", "background copy", "done")]
        assert starts == sorted(starts)
        assert all(root.start_time <= span.start_time <= span.end_time for span in trace.values())


@pytest.mark.parametrize("strategy", [Strategy.RESTART, Strategy.REPLAY, Strategy.STANDBY])
def test_every_way_of_moving_is_traced(exporter: InMemorySpanExporter, strategy: Strategy) -> None:
    cluster = grown(Manner(strategy=strategy), spans=traced(exporter))
    cluster.add("b")
    work(cluster, running(cluster, "a", "b"))
    work(cluster, cluster.settled)
    for _ in range(20):
        cluster.step()
    traces = [trace for trace in spans_by_trace(exporter) if "hand-over" in trace]
    assert traces
    for trace in traces:
        assert {"hand-over", "decision", "take-over", "release", "done"} <= set(trace)
        assert ("prepare" in trace) == (strategy is not Strategy.RESTART)


def test_the_context_is_in_the_log_only_where_there_is_a_trace(exporter: InMemorySpanExporter) -> None:
    for spans in ({}, {"spans": traced(exporter)}):
        cluster, mark, _ = moved_to_b(Manner(), **spans)
        logged = [event for event in cluster.journal.events(mark) if isinstance(event, Assigned)]
        assert all(bool(record.trace) == bool(spans) for record in logged)


def test_a_restarted_coordinator_goes_on_in_the_same_trace(exporter: InMemorySpanExporter) -> None:
    """The spans of the new owner belong to the trace whose context is in the log, whoever leads."""
    cluster, mark, _ = moved_to_b(Manner(strategy=Strategy.HYBRID, bins=16), spans=traced(exporter))
    contexts = {event.trace.split("-")[1] for event in moves(cluster, mark)}
    cluster.drain("b")
    work(cluster, left(cluster, "b"))
    found = {f"{span.context.trace_id:032x}" for span in exporter.get_finished_spans() if span.name == "take-over"}
    assert contexts < found


class Broken:
    """A tracer provider of which nothing works."""

    def get_tracer(self, name: str) -> Broken:
        return self

    def __getattr__(self, name: str) -> Any:
        raise OSError("no space left on device")


def test_spans_that_cannot_be_made_change_nothing() -> None:
    cluster = Cluster(Manner(bins=16), spans=lambda clock: OtelSpans(Broken(), clock))  # type: ignore[arg-type]
    cluster.add("a")
    cluster.settle()
    cluster.write(rows_of(range(200)))
    cluster.add("b")
    work(cluster, running(cluster, "a", "b"))
    cluster.assert_exact()
