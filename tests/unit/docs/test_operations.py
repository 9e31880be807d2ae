"""docs/operations.md against the code: each setting, series and log line that asks for attention, and no more."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import pytest
import typer
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from statemgr.cli import app as statemgr_app
from tests.unit.docs.documented import REPOSITORY, SOURCES, first_column, log_lines, operations, section
from towpath.cli import app as towpath_app
from towpath.coordinator.metrics import CoordinatorMetrics
from towpath.coordinator.settings import CoordinatorSettings
from towpath.stage.metrics import StageMetrics
from towpath.stage.settings import StageSettings

OWN_OF_POD = ("query", "stage", "coordinator", "replica", "bootstrap", "state-dir", "kafka-config", "set")
"""Options of ``towpath pod`` that are those of a stage, as well."""


def options(app: typer.Typer, command: str) -> set[str]:
    """The visible options of a command, without dashes."""
    found = typer.main.get_command(app).commands[command].params  # type: ignore[attr-defined]
    return {
        name.removeprefix("--")
        for parameter in found
        if not getattr(parameter, "hidden", False) and parameter.name != "help"
        for name in parameter.opts
        if name.startswith("--")
    }


def families(registry: CollectorRegistry) -> set[str]:
    """Names of all series, with the suffix that Prometheus gives counters."""
    return {family.name + ("_total" if family.type == "counter" else "") for family in registry.collect()}


def documented_series(title: str) -> dict[str, list[str]]:
    """Series → its labels beside those of the process."""
    found: dict[str, list[str]] = {}
    for entry in first_column(section(operations(), title)):
        name, _, labels = entry.partition("{")
        assert name not in found, f"{name} is there twice"
        found[name] = [label for label in labels.rstrip("}").split(",") if label]
    return found


def same(documented: Iterable[str], real: Iterable[str], what: str) -> None:
    said, there = set(documented), set(real)
    lacking, vain = sorted(there - said), sorted(said - there)
    assert said == there, f"{what}: not documented {lacking}; documented, but not there {vain}"


# --- settings ---


@pytest.mark.parametrize(
    ("title", "settings"),
    [("Settings of a stage", StageSettings), ("Settings of the coordinator", CoordinatorSettings)],
)
def test_every_setting_is_documented(title: str, settings: type[StageSettings] | type[CoordinatorSettings]) -> None:
    same(first_column(section(operations(), title)), settings.model_fields, title)


@pytest.mark.parametrize(
    ("title", "settings"),
    [("Settings of a stage", StageSettings), ("Settings of the coordinator", CoordinatorSettings)],
)
def test_numbers_in_the_table_are_the_defaults(
    title: str, settings: type[StageSettings] | type[CoordinatorSettings]
) -> None:
    rows = re.findall(r"^\| (`.+?) \| (.+?) \|", section(operations(), title), re.MULTILINE)
    numbers = 0
    for names, defaults in rows:
        for name, default in zip(re.findall("`([^`]+)`", names), defaults.split(", "), strict=False):
            real = settings.model_fields[name].default
            if re.fullmatch(r"-?\d+", default):
                numbers += 1
                assert float(default) == real, name
            else:
                assert not isinstance(real, int | float) or isinstance(real, bool), f"{name}: {default}, it is {real}"
    assert numbers > 5


def test_options_of_a_state_manager_and_of_a_pod_are_documented() -> None:
    text = section(operations(), "Options of a state manager and of a pod")
    named = [name.removeprefix("--") for name in first_column(text)]
    pod = options(towpath_app, "pod") - set(OWN_OF_POD)
    same(named, options(statemgr_app, "serve") | pod, "options")


def test_variables_of_every_process_are_documented() -> None:
    """All that the sources read by its full name, but for those that are a setting or an option anyway."""
    fields = {f"TOWPATH_{name.upper()}" for name in StageSettings.model_fields}
    text = operations()
    described = set(first_column(section(text, "Environment of every process")))
    named = {name for path in _sources() for name in re.findall(r"\"(TOWPATH_[A-Z_]*[A-Z])\"", path)}
    assert described <= named, f"documented, but read by nobody: {sorted(described - named)}"
    unnamed = {name for name in named - fields if f"`{name}`" not in text}
    assert not unnamed, f"not documented: {sorted(unnamed)}"


def _sources() -> Iterator[str]:
    for source in SOURCES:
        for path in source.rglob("*.py"):
            yield path.read_text()


# --- metrics ---


def test_every_series_of_a_replica_is_documented() -> None:
    same(documented_series("Of a replica"), families(StageMetrics("count", "count-0").registry), "series of a replica")


def test_every_series_of_the_coordinator_is_documented() -> None:
    real = families(CoordinatorMetrics().registry)
    same(documented_series("Of the coordinator"), real, "series of the coordinator")


@pytest.mark.parametrize(("title", "common"), [("Of a replica", ("stage", "replica")), ("Of the coordinator", ())])
def test_labels_in_the_tables_are_those_of_the_series(title: str, common: tuple[str, ...]) -> None:
    registry = StageMetrics("count", "count-0").registry if common else CoordinatorMetrics().registry
    real: dict[str, list[str]] = {}
    for collector in list(registry._collector_to_names):
        for family in collector.collect():
            names = getattr(collector, "_labelnames", None) or getattr(collector, "_labels", ())
            suffix = "_total" if family.type == "counter" else ""
            real[family.name + suffix] = [name for name in names if name not in common]
    assert documented_series(title) == real


def test_queries_in_the_page_name_series_that_there_are() -> None:
    text = section(operations(), "Questions and their queries")
    there = documented_series("Of a replica").keys() | documented_series("Of the coordinator").keys()
    named = {re.sub(r"_bucket$", "", name) for name in re.findall(r"towpath_[a-z_]+", text)}
    assert named
    assert named <= there


def test_names_follow_prometheus_conventions() -> None:
    for registry in (StageMetrics("count", "count-0").registry, CoordinatorMetrics().registry):
        for family in registry.collect():
            assert re.fullmatch(r"(towpath|process)(_[a-z]+)+", family.name), family.name
            assert family.documentation
            if family.type == "histogram":
                assert family.name.endswith("_seconds")


# --- the log ---


def test_every_line_that_asks_for_attention_is_documented() -> None:
    real = dict(log_lines())
    assert len(real) > 30
    pages = [operations(), (REPOSITORY / "docs" / "faust.md").read_text()]
    documented = [line for page in pages for line in first_column(section(page, "Log lines that ask for attention"))]
    same(documented, real, "log lines")


# --- pages among each other ---


@pytest.mark.parametrize("page", ["faust.md", "operations.md", "strategies.md"])
def test_links_lead_somewhere(page: str) -> None:
    text = (REPOSITORY / "docs" / page).read_text()
    links = re.findall(r"\]\(([^)#]*)(?:#([^)]+))?\)", text)
    assert links
    for target, anchor in links:
        if target.startswith("http"):
            continue
        other = (REPOSITORY / "docs" / target).read_text() if target else text
        titles = [_anchor(title) for title in re.findall(r"^#+ (.+)$", other, re.MULTILINE)]
        assert not anchor or anchor in titles, f"{target}#{anchor}"


def _anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def test_figures_of_strategies_are_those_of_the_readme() -> None:
    """The page gives no figure of its own: each row of its table is one of the README's, without the last column."""
    text = section((REPOSITORY / "docs" / "strategies.md").read_text(), "What was measured")
    figures = [row for row in text.splitlines() if re.match(r"\| [a-z].*\d", row)]
    readme = (REPOSITORY / "README.md").read_text()
    assert len(figures) == 6
    for row in figures:
        assert row.removesuffix(" |") in readme, row


def test_an_undocumented_series_would_be_found() -> None:
    registry = CoordinatorMetrics().registry
    text = "# HELP towpath_new x\n# TYPE towpath_new gauge\ntowpath_new 1\n"
    new = {family.name for family in text_string_to_metric_families(text)}
    with pytest.raises(AssertionError, match="not documented \\['towpath_new'\\]"):
        same(documented_series("Of the coordinator"), families(registry) | new, "series")
