"""Dashboards as code: make_dashboards.py writes dashboards/*.json for Grafana from the rows and panels below."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SOURCE = {"type": "prometheus", "uid": "prometheus"}
WIDTH, PANEL_HEIGHT, STAT_HEIGHT = 24, 8, 4
RATE = "$__rate_interval"
REPLICA = 'stage=~"$stage",replica=~"$replica"'
STAGE = 'stage=~"$stage"'


@dataclass(frozen=True)
class Panel:
    """A panel: its title, legend → PromQL, the unit of its values in Grafana's words, and what it means."""

    title: str
    queries: dict[str, str]
    unit: str = "short"
    about: str = ""
    kind: str = "timeseries"
    stacked: bool = False


@dataclass(frozen=True)
class Dashboard:
    """A dashboard: rows of panels that share a line, and the variables by which one chooses: name → PromQL."""

    uid: str
    title: str
    rows: Sequence[Sequence[Panel]]
    variables: dict[str, str] = field(default_factory=dict)


def rate(series: str, labels: str, by: str) -> str:
    """Per second, summed over everything but some labels."""
    return f"sum by ({by}) (rate({series}{{{labels}}}[{RATE}]))"


def increase(series: str, labels: str, by: str) -> str:
    """By how much it rose, summed over everything but some labels."""
    return f"sum by ({by}) (increase({series}{{{labels}}}[{RATE}]))"


def quantiles(histogram: str, labels: str, by: str) -> dict[str, str]:
    """Median and 99th percentile of a histogram."""
    buckets = rate(f"{histogram}_bucket", labels, f"le, {by}")
    return {
        f"{{{{{by}}}}} {name}": f"histogram_quantile({q}, {buckets})" for name, q in {"p50": 0.5, "p99": 0.99}.items()
    }


def stat(title: str, query: str, about: str) -> Panel:
    """One number."""
    return Panel(title, {title: query}, about=about, kind="stat")


PIPELINE = Dashboard(
    "towpath-pipeline",
    "Towpath: pipeline",
    variables={
        "stage": "label_values(towpath_records_total, stage)",
        "replica": 'label_values(towpath_records_total{stage=~"$stage"}, replica)',
    },
    rows=[
        [
            stat("Replicas", f'sum(towpath_replicas{{presence="present",{STAGE}}})', "Heard by the coordinator."),
            stat("Moves under way", "sum(towpath_moves_active)", "Tasks that are getting another owner."),
            stat("Stalled moves", f"sum(towpath_moves_stalled{{{STAGE}}})", "Should be 0: see towpath migrations."),
            stat(
                "Tasks without all state",
                f"sum(towpath_tasks_incomplete{{{STAGE}}})",
                "They run; state that is missing comes as it is needed, and in the background.",
            ),
            stat(
                "Dead letters",
                f"sum(towpath_dead_letters_total{{{REPLICA}}})",
                "Records that could not be processed, since the replicas began.",
            ),
            stat(
                "Late rows",
                f"sum(towpath_late_rows_total{{{REPLICA}}})",
                "Rows whose window was closed, since the replicas began.",
            ),
        ],
        [
            Panel(
                "Latency from end to end",
                quantiles("towpath_end_to_end_latency_seconds", REPLICA, "topic"),
                "s",
                "From the time at which the oldest event behind an output was meant to be sent until its commit.",
            ),
            Panel(
                "Latency of a stage",
                quantiles("towpath_stage_latency_seconds", REPLICA, "stage"),
                "s",
                "From the append of an input record until the commit of what came of it: where the time goes.",
            ),
        ],
        [
            Panel(
                "Rows read",
                {"{{stage}}": rate("towpath_rows_total", REPLICA, "stage")},
                "ops",
                "Rows per second that were decoded from input records: the throughput.",
            ),
            Panel(
                "Rows written",
                {"{{stage}} {{topic}}": rate("towpath_output_rows_total", REPLICA, "stage, topic")},
                "ops",
                "Rows per second, by the topic they go to.",
            ),
        ],
        [
            Panel(
                "Input that is not committed yet",
                {"{{stage}}": f"sum by (stage) (towpath_stage_committed_lag_records{{{STAGE}}})"},
                about="Kafka records. If it grows without end, the stage is too slow: give it more replicas.",
            ),
            Panel(
                "Watermark behind the clock",
                {"{{stage}}": f"max by (stage) (towpath_watermark_lag_seconds{{{REPLICA}}})"},
                "s",
                "Of the task that is furthest behind, which holds windows. Only where there is event time.",
            ),
        ],
        [
            Panel(
                "Wait before a stage",
                quantiles("towpath_operator_queue_wait_seconds", REPLICA, "stage"),
                "s",
                "From the append to the stage's input topic until a batch is taken, by the oldest record of a batch.",
            ),
            Panel(
                "Commits",
                quantiles("towpath_commit_seconds", REPLICA, "stage"),
                "s",
                "How long a transaction takes to commit.",
            ),
        ],
        [
            Panel(
                "Busy",
                {"{{replica}}": rate("towpath_operator_busy_seconds_total", REPLICA, "stage, replica")},
                "percentunit",
                "Share of time inside operators. Near one the replica is full: it has one core.",
            ),
            Panel(
                "Processor time",
                {"{{replica}}": rate("process_cpu_seconds_total", REPLICA, "stage, replica")},
                "percentunit",
                "Cores that a replica's process uses; its state manager is a process of its own.",
            ),
        ],
        [
            Panel(
                "Memory",
                {"{{replica}}": f"sum by (stage, replica) (process_resident_memory_bytes{{{REPLICA}}})"},
                "bytes",
                "Resident memory of a replica's process.",
            ),
            Panel(
                "State",
                {"{{stage}}": f"sum by (stage) (towpath_state_bytes{{{REPLICA}}})"},
                "bytes",
                "Live data in the stores of all tasks, as RocksDB estimates it.",
            ),
        ],
        [
            Panel(
                "Keys found in the cache",
                {
                    "{{stage}}": f"{rate('towpath_cache_hits_total', REPLICA, 'stage')} / ("
                    f"{rate('towpath_cache_hits_total', REPLICA, 'stage')} + "
                    f"{rate('towpath_cache_misses_total', REPLICA, 'stage')})"
                },
                "percentunit",
                "Of the keys of each batch. Few under load: raise cache_entries.",
            ),
            Panel(
                "Uncommitted state",
                {"{{replica}}": f"sum by (stage, replica) (towpath_dirty_entries{{{REPLICA}}})"},
                about="State entries that wait for their commit.",
            ),
        ],
        [
            Panel(
                "Rows that wait for state",
                {"{{replica}}": f"sum by (stage, replica) (towpath_waiting_rows{{{REPLICA}}})"},
                about="Their keys' state is on its way from another replica. Not for long outside a migration.",
            ),
            Panel(
                "Restore from the changelog",
                {"{{replica}}": rate("towpath_restored_records_total", REPLICA, "stage, replica")},
                "ops",
                "Changelog records applied per second: after a start without state, by replay and restart.",
            ),
        ],
        [
            Panel(
                "Progress of tasks",
                {
                    "{{topic}}/{{partition}}": f"max by (topic, partition) (towpath_task_input_offset{{{REPLICA}}})",
                },
                about="Next input offset of each task, whoever owns it. A flat line among others: a task that stands.",
            ),
            Panel(
                "Ownership lost",
                {"{{replica}}": increase("towpath_producer_lost_total", REPLICA, "stage, replica")},
                about="Fences and other losses of the producer. Again and again: two processes have the same name.",
            ),
        ],
    ],
)

COORDINATOR = Dashboard(
    "towpath-coordinator",
    "Towpath: coordinator and moves",
    variables={"stage": "label_values(towpath_replicas, stage)"},
    rows=[
        [
            stat("Leads", "max(towpath_coordinator_leading)", "1 while a coordinator leads; without, nothing moves."),
            stat("Term", "max(towpath_coordinator_term)", "Rises by one with each coordinator that begins to lead."),
            stat("Stalled moves", f"sum(towpath_moves_stalled{{{STAGE}}})", "Should be 0: see towpath migrations."),
            stat(
                "Tasks that say nothing",
                f"sum(towpath_stage_tasks_unheard{{{STAGE}}})",
                "They have no owner, or do not run yet. Should be 0 but for a moment.",
            ),
            stat("Fences not done in time", "sum(towpath_fence_failures_total)", "Tried again until they are done."),
        ],
        [
            Panel(
                "Tasks by owner",
                {"{{replica}}": f"sum by (stage, replica) (towpath_tasks{{{STAGE}}})"},
                about="A change of size is a step from one colour to another.",
                stacked=True,
            ),
            Panel(
                "Replicas",
                {"{{stage}} {{presence}}": f"sum by (stage, presence) (towpath_replicas{{{STAGE}}})"},
                about="Present, expected (not heard since the coordinator began), silent, dead, stopped.",
                stacked=True,
            ),
        ],
        [
            Panel(
                "Moves under way",
                {"{{step}}": "sum by (step) (towpath_moves_active)"},
                about="By step: prepared, committed, released by the former owner, running at the new one.",
                stacked=True,
            ),
            Panel(
                "Tasks without all state",
                {"{{stage}}": f"sum by (stage) (towpath_tasks_incomplete{{{STAGE}}})"},
                about="They run; state that is missing comes as it is needed, and in the background.",
            ),
        ],
        [
            Panel(
                "Pause of moved tasks",
                quantiles("towpath_move_pause_seconds", STAGE, "strategy"),
                "s",
                "How long a task stood still: from its assignment until its new owner runs it.",
            ),
            Panel(
                "Phases of moves",
                {
                    "{{phase}} p99": "histogram_quantile(0.99, "
                    f"{rate('towpath_move_phase_seconds_bucket', STAGE, 'le, phase')})"
                },
                "s",
                "Prepare, release and take over; and background, after which all state is there.",
            ),
        ],
        [
            Panel(
                "Moves that ended",
                {"{{outcome}}": increase("towpath_moves_total", STAGE, "outcome")},
                about="Done; dropped before they began; superseded by another assignment.",
            ),
            Panel(
                "State from other replicas",
                {"{{stage}} {{strategy}}": rate("towpath_migration_bytes_total", STAGE, "stage, strategy")},
                "Bps",
                "Keys and values that arrive, by the way that they come.",
            ),
            Panel(
                "Keys whose state was there",
                {
                    "{{strategy}}": f"sum by (strategy) (towpath_migration_keys_local_total{{{STAGE}}}) / "
                    f"sum by (strategy) (towpath_migration_keys_asked_total{{{STAGE}}})"
                },
                "percentunit",
                "Of the keys that moved tasks asked for while state was on its way; for the others they waited.",
            ),
        ],
        [
            Panel(
                "Assignments",
                {"{{why}}": increase("towpath_assignments_total", "", "why")},
                about="Tasks assigned, by reason.",
            ),
            Panel(
                "Fences",
                {"{{stage}}": increase("towpath_fences_total", STAGE, "stage")},
                about="Replicas whose transactions were ended: dead ones, and those that did not let go in time.",
            ),
            Panel(
                "Time that a fence took",
                {"p99": f"histogram_quantile(0.99, {rate('towpath_fence_seconds_bucket', '', 'le')})"},
                "s",
                "A dead replica's tasks wait for it.",
            ),
        ],
    ],
)

DASHBOARDS = {"pipeline": PIPELINE, "coordinator": COORDINATOR}


def render(dashboard: Dashboard) -> dict[str, Any]:
    """A dashboard as Grafana reads it."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["towpath"],
        "schemaVersion": 39,
        "editable": False,
        "refresh": "5s",
        "time": {"from": "now-15m", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [_variable(name, query) for name, query in dashboard.variables.items()]},
        "panels": _panels(dashboard.rows),
    }


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": SOURCE,
        "query": query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panels(rows: Sequence[Sequence[Panel]]) -> list[dict[str, Any]]:
    """Rows one below the other, panels of a row equally wide."""
    panels: list[dict[str, Any]] = []
    top = 0
    for row in rows:
        width = WIDTH // len(row)
        height = STAT_HEIGHT if all(panel.kind == "stat" for panel in row) else PANEL_HEIGHT
        for place, panel in enumerate(row):
            position = {"x": place * width, "y": top, "w": width, "h": height}
            panels.append({"id": len(panels) + 1, "gridPos": position, **_panel(panel)})
        top += height
    return panels


def _panel(panel: Panel) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit}
    if panel.kind == "timeseries":
        stacking = {"mode": "normal" if panel.stacked else "none"}
        defaults["custom"] = {"fillOpacity": 40 if panel.stacked else 0, "stacking": stacking}
        defaults["min"] = 0
    return {
        "title": panel.title,
        "description": panel.about,
        "type": panel.kind,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "datasource": SOURCE, "expr": query, "legendFormat": legend}
            for number, (legend, query) in enumerate(panel.queries.items())
        ],
    }


def text(dashboard: Dashboard) -> str:
    """A dashboard's file."""
    return json.dumps(render(dashboard), indent=2, ensure_ascii=False) + "\n"


def main(directory: Path = HERE / "dashboards") -> None:
    """Write all of them."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, dashboard in DASHBOARDS.items():
        (directory / f"{name}.json").write_text(text(dashboard), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
