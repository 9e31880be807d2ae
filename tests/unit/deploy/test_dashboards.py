"""Dashboards and alerts ask only for what the services expose."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
from prometheus_client import CollectorRegistry

from tests.harness.dashboards import DEPLOY, alert_queries, dashboards, panel_queries, variable_queries
from towpath.coordinator.metrics import CoordinatorMetrics
from towpath.stage.metrics import StageMetrics

QUERIES = {**panel_queries(), **variable_queries(), **alert_queries()}
OF_BUCKETS = {"le"}
SUFFIXES = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_count", "_sum"]}
"""Kind of a family → what Prometheus' names of its series end in."""


@pytest.fixture(scope="module")
def source() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("make_dashboards", DEPLOY / "grafana" / "make_dashboards.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def exposed() -> dict[str, set[str]]:
    """Series → its labels, of stages and coordinators."""
    registries: list[CollectorRegistry] = [StageMetrics("count", "count-0").registry, CoordinatorMetrics().registry]
    found: dict[str, set[str]] = {}
    for collector in [each for registry in registries for each in list(registry._collector_to_names)]:
        labels = set(getattr(collector, "_labelnames", None) or getattr(collector, "_labels", ()))
        for family in collector.collect():
            for suffix in SUFFIXES[family.type]:
                of_series = labels | OF_BUCKETS if suffix == "_bucket" else labels
                found[family.name + suffix] = found.get(family.name + suffix, set()) | of_series
    return found


def labels_of(query: str) -> set[str]:
    """Labels that a query selects or groups by."""
    grouped = {name.strip() for names in re.findall(r"\bby \(([^)]*)\)", query) for name in names.split(",")}
    return grouped | set(re.findall(r"(\w+)=~?\"", query))


def test_the_files_are_what_their_source_makes(source: ModuleType) -> None:
    made = {name: source.text(dashboard) for name, dashboard in source.DASHBOARDS.items()}
    files = {path.stem: path.read_text() for path in (DEPLOY / "grafana" / "dashboards").glob("*.json")}
    assert files == made


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_asks_for_series_that_are_exposed_by_labels_that_they_have(name: str) -> None:
    known, query = exposed(), QUERIES[name]
    series = set(re.findall(r"\b(?:towpath|process)_\w+", query))
    assert series, f"{query}: of what?"
    assert series <= set(known)
    assert labels_of(query) <= set.union(*(known[each] for each in series))


def test_panels_do_not_overlap_and_have_a_description() -> None:
    for dashboard in dashboards().values():
        taken: set[tuple[int, int]] = set()
        for panel in dashboard["panels"]:
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            assert not cells & taken, panel["title"]
            assert at["x"] + at["w"] <= 24
            assert panel["description"], panel["title"]
            taken |= cells


def test_dashboards_use_the_data_source_that_is_provisioned() -> None:
    text = (DEPLOY / "grafana" / "provisioning" / "datasources" / "prometheus.yml").read_text()
    uids = {
        target["datasource"]["uid"] for each in dashboards().values() for p in each["panels"] for target in p["targets"]
    }
    assert uids == set(re.findall(r"uid: (\w+)", text))
