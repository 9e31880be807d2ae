"""What real processes tell of themselves while a stage grows: metrics, history, page, log lines, traces."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.harness.cluster import Cluster, clustered
from tests.harness.collector import Collector
from tests.harness.launched import QUERY
from tests.harness.load import Load
from tests.harness.processes import LoggedProcess
from tests.harness.waiting import wait_for
from towpath.broker import LocalBroker

pytestmark = [pytest.mark.broker, pytest.mark.slow]

PARTITIONS = 4
LIMIT_S = 30.0


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


@pytest.fixture
def cluster(
    broker: LocalBroker,
    unique_name: Callable[[str], str],
    tmp_path: Path,
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
) -> Cluster:
    monkeypatch.setenv("TOWPATH_LOG_FORMAT", "json")
    traced = ["-o", f"traces_url={collector.url}"]
    return Cluster(
        QUERY,
        broker.bootstrap,
        tmp_path,
        settings={"app": unique_name("seen")},
        options=traced,
        coordinator_options=traced,
        source_partitions=PARTITIONS,
    )


class Scrape:
    """One look at a process's /metrics, read as Prometheus reads it."""

    def __init__(self, process: LoggedProcess) -> None:
        answer = process.ask("/metrics")
        assert answer is not None, process.describe()
        assert answer[0] == 200
        self.samples = [
            sample for family in text_string_to_metric_families(answer[1].decode()) for sample in family.samples
        ]

    def sum(self, name: str, **labels: str) -> float:
        """Of all samples with these labels; one at least must be there."""
        found = [each.value for each in self.samples if each.name == name and labels.items() <= each.labels.items()]
        assert found, f"no {name} {labels} among {sorted({each.name for each in self.samples})}"
        return sum(found)

    def labels(self, name: str, label: str) -> set[str]:
        return {each.labels[label] for each in self.samples if each.name == name}


def test_processes_tell_what_they_do_and_what_a_change_of_size_came_to(
    cluster: Cluster, broker: LocalBroker, collector: Collector
) -> None:
    with clustered(cluster):
        cluster.await_settled()
        with Load(broker.bootstrap, cluster.source, partitions=PARTITIONS, rate=1000) as load:
            wait_for("there is state", lambda: load.sent > 3000, LIMIT_S, cluster.describe)
            cluster.scale("count", 2)
            wait_for("the newcomer is a member", lambda: cluster.all_are_members("count"), 60.0, cluster.describe)
            cluster.await_settled()
            load.stop()
        cluster.drain()
        first, second = (cluster.pods[name].stage for name in ("count-0", "count-1"))
        wait_for("all lag is gone", lambda: not committed_lag(cluster), LIMIT_S, lambda: str(committed_lag(cluster)))
        check_source(Scrape(cluster.pods["source-0"].stage), load.sent)
        check_counters(Scrape(first), Scrape(second))
        check_coordinator(Scrape(cluster.coordinator))
        check_views(cluster.coordinator)
        cluster.stop()
        whole = "all spans of two hand-overs have come"
        wait_for(whole, lambda: len(hand_overs(collector)) >= 2, LIMIT_S, lambda: str(collector.spans()))
    check_log(cluster)
    check_traces(collector)


def committed_lag(cluster: Cluster) -> float:
    """By the coordinator, whose word is as old as a heartbeat, and by the replicas, whose is a second old."""
    pods = [Scrape(pod.stage) for pod in cluster.working("count")]
    told = Scrape(cluster.coordinator).sum("towpath_stage_committed_lag_records", stage="count")
    return told + sum(pod.sum("towpath_task_committed_lag_records") for pod in pods)


def check_source(source: Scrape, sent: int) -> None:
    assert source.sum("towpath_records_total") == source.sum("towpath_rows_total") == sent
    assert source.labels("towpath_records_total", "stage") == {"source"}
    assert source.sum("towpath_output_rows_total") > 0
    assert source.sum("towpath_output_bytes_total") > 0
    assert source.sum("towpath_stage_latency_seconds_count") > 0
    assert source.sum("towpath_operator_seconds_count") > 0


def check_counters(first: Scrape, second: Scrape) -> None:
    partitions = [each.labels("towpath_task_lag_records", "partition") for each in (first, second)]
    assert not partitions[0] & partitions[1], "a task is shown by two replicas"
    assert partitions[0] | partitions[1] == {str(number) for number in range(PARTITIONS)}
    for each, owned in zip((first, second), partitions, strict=True):
        assert each.labels("towpath_state_bytes", "partition") == owned
        assert each.sum("towpath_state_bytes") > 0
        assert each.sum("towpath_state_entries") > 0
        assert each.sum("towpath_commits_total") > 0
        assert each.sum("towpath_cache_hits_total", table="count") > 0
        assert each.sum("towpath_end_to_end_latency_seconds_count") > 0
        assert 20e6 < each.sum("process_resident_memory_bytes") < 2e9
    moved = len(partitions[1])
    assert second.sum("towpath_migrations_total", strategy="hybrid") == moved
    assert second.sum("towpath_migration_bytes_total", strategy="hybrid") > 0
    assert second.sum("towpath_migration_phase_seconds_count", phase="background") == moved
    assert second.sum("towpath_migration_phase_seconds_count", phase="first_output") == moved
    assert second.sum("towpath_migration_keys_asked_total") >= second.sum("towpath_migration_keys_local_total")
    assert first.sum("towpath_migration_phase_seconds_count", phase="release") == moved


def check_coordinator(coordinator: Scrape) -> None:
    assert coordinator.sum("towpath_stage_tasks_unheard") == 0
    assert coordinator.sum("towpath_moves_total", stage="count", strategy="hybrid", outcome="done") == 2
    assert coordinator.sum("towpath_move_pause_seconds_count", stage="count") == 2
    phases = coordinator.labels("towpath_move_phase_seconds_count", "phase")
    assert phases == {"prepare", "release", "take_over", "background"}
    assert coordinator.sum("process_resident_memory_bytes") > 20e6


def check_views(coordinator: LoggedProcess) -> None:
    points = {stage["stage"]: stage["points"] for stage in asked(coordinator, "/history")}
    assert max(point["rows"] for point in points["source"]) > 100
    assert any(point["p99_ms"] for point in points["count"])
    assert any(point["end_to_end_p50_ms"] for point in points["count"])
    moves = [move for move in asked(coordinator, "/migrations") if move["stage"] == "count"]
    assert [move["step"] for move in moves] == ["done", "done"]
    assert all(move["progress"]["bytes"] > 0 and move["phases"]["background"] > 0 for move in moves)
    page = coordinator.ask("/")
    assert page is not None
    assert page[0] == 200
    assert b"<title>Towpath</title>" in page[1]


def asked(coordinator: LoggedProcess, path: str) -> Any:
    answer = coordinator.get(path)
    assert answer is not None
    assert answer[0] == 200
    return answer[1]


def check_log(cluster: Cluster) -> None:
    for process in cluster.processes:
        said = [json.loads(line) for line in process.log().splitlines()]
        assert said, process.name
        assert {line["query"] for line in said} == {cluster.plan.app}
        assert all(line["level"] in {"info", "warning", "error"} and line["event"] for line in said)
    lines = [json.loads(line) for line in cluster.pods["count-1"].stage.log().splitlines()]
    owned = [line for line in lines if line["event"] == "owns"]
    assert len(owned) == 2
    assert all((line["stage"], line["replica"], line["epoch"]) == ("count", "count-1", 2) for line in owned)
    assert {line["task"] for line in lines if line["event"] == "all state is here"} == {line["task"] for line in owned}


def hand_overs(collector: Collector) -> dict[bytes, set[str]]:
    """Trace → its spans, of those that end with a whole hand-over of a count."""
    found: dict[bytes, set[str]] = {}
    for span in collector.spans():
        found.setdefault(span.trace_id, set()).add(span.name)
    return {trace: names for trace, names in found.items() if {"hand-over", "background copy"} <= names}


def check_traces(collector: Collector) -> None:
    names = {"hand-over", "decision", "prepare", "release", "take-over", "first output", "background copy", "done"}
    whole = [trace for trace, found in hand_overs(collector).items() if found == names]
    assert len(whole) == 2
    services = {
        (attribute.value.string_value, span.trace_id)
        for _, request in collector.requests
        for resource in request.resource_spans
        for attribute in resource.resource.attributes
        if attribute.key == "service.instance.id"
        for scope in resource.scope_spans
        for span in scope.spans
    }
    for trace in whole:
        assert {"count-0", "count-1"} < {name for name, of in services if of == trace}  # and the coordinator's host
