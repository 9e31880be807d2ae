"""The commands that talk to a coordinator, against one that serves an application in memory."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator

import pytest
import structlog
from typer.testing import CliRunner, Result

import towpath.coordinator.service
from statemgr.clock import SystemClock
from tests.unit.towpath.coordinator.application import Application
from towpath.cli import app
from towpath.cli.migrations import migration_table
from towpath.cli.tasks import task_table
from towpath.coordinator.errors import CoordinatorError, CoordinatorUnavailableError, RefusedError
from towpath.coordinator.http import application as http_application
from towpath.coordinator.settings import CoordinatorSettings
from towpath.coordinator.statuses import MigrationStatus, TaskStatus
from towpath.errors import SettingsError
from towpath.stage.health import HttpServer


class Served:
    """An application that goes on by itself, at a URL."""

    def __init__(self) -> None:
        self.application = Application()
        for name in ("count-0", "count-1"):
            self.application.add(name)
        self.application.settle()
        self._server = HttpServer(http_application(self.application.heard_by, SystemClock(), 1e9), "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.start()}"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._go_on)
        self._thread.start()

    def _go_on(self) -> None:
        while not self._over.wait(0.001):
            self.application.step()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        self._server.stop()


@pytest.fixture(autouse=True)
def coordinator_without_log() -> None:
    """It lives in this process, whose output is the command's."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.stop()


def run(served: Served, *arguments: str) -> Result:
    result = CliRunner().invoke(app, [*arguments, "--coordinator", served.url])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.mark.parametrize("command", ["coordinator", "scale", "move", "tasks", "migrations"])
def test_every_command_explains_itself_with_an_example(command: str) -> None:
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert f"Example: towpath {command}" in result.output


@pytest.mark.parametrize("arguments", [["tasks"], ["migrations"], ["scale", "count=2"], ["move", "count/0", "count-1"]])
def test_without_a_coordinator_one_line_says_what_to_do(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments, env={"TOWPATH_COORDINATOR": "http://127.0.0.1:1"})
    assert isinstance(result.exception, CoordinatorUnavailableError)
    assert "no coordinator answers at http://127.0.0.1:1" in str(result.exception)
    assert "\n" not in str(result.exception)


def test_host_and_port_of_the_coordinator_are_enough(served: Served) -> None:
    address = served.url.removeprefix("http://")
    by_option = CliRunner().invoke(app, ["tasks", "--json", "--coordinator", address])
    by_environment = CliRunner().invoke(app, ["tasks", "--json"], env={"TOWPATH_COORDINATOR": address})
    assert by_option.exit_code == by_environment.exit_code == 0
    assert "count/0" in by_option.output
    assert "count/0" in by_environment.output


def test_tasks_are_listed_for_people_and_for_programs(served: Served) -> None:
    assert "count/0" in run(served, "tasks").output
    found = json.loads(run(served, "tasks", "--json").output)
    assert [task["task"] for task in found] == ["count/0", "count/1", "count/2", "count/3"]


def test_tasks_show_how_far_they_are_behind_where_that_is_known() -> None:
    from rich.console import Console

    behind = TaskStatus(
        task="count/0", stage="count", partition=0, owner="count-0", epoch=1, state="running", complete=True, lag=12_345
    )
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(task_table([behind, behind.model_copy(update={"task": "count/1", "lag": None})]))
    first, second = console.export_text().splitlines()[-3:-1]
    assert first.split() == ["count/0", "count-0", "1", "running", "yes", "12,345"]
    assert second.split() == ["count/1", "count-0", "1", "running", "yes"]


@pytest.mark.slow
def test_scaling_names_what_it_changes_and_waits_if_asked(served: Served) -> None:
    said = run(served, "scale", "count=1", "--strategy", "lazy", "--set", "pacing=0.5", "--wait").output
    assert (
        said
        == "count: 1 replicas wanted, state travels by lazy; every task runs where it should, 0 still fetch state\n"
    )
    (stage,) = json.loads(run(served, "scale", "count=2", "--wait", "--json").output)
    assert (stage["settled"], stage["members"]) == (True, ["count-0", "count-1"])
    assert (stage["manner"]["strategy"], stage["manner"]["pacing"]) == ("lazy", 0.5), "what is not named stays"


@pytest.mark.slow
def test_a_wait_that_takes_too_long_says_what_is_missing(served: Served) -> None:
    with pytest.raises(CoordinatorError, match=r"not settled after 0.2 s: 2 of 9 replicas are there"):
        run(served, "scale", "count=9", "--wait", "--timeout", "0.2")
    run(served, "scale", "count=2", "--wait")


@pytest.mark.slow
def test_moving_a_task_waits_if_asked_and_shows_among_the_migrations(served: Served) -> None:
    owner = served.application.owners()[3]
    other = "count-1" if owner == "count-0" else "count-0"
    assert run(served, "move", "count/3", other, "--wait").output.startswith(f"count/3 runs at {other} (epoch ")
    assert run(served, "move", "count/3", other).output == f"count/3 belongs to {other} already\n"
    moves = json.loads(run(served, "migrations", "--json").output)
    assert moves[0]["task"] == "count/3"
    assert "count/3" in run(served, "migrations").output


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (["scale", "count"], SettingsError, "expected name=value"),
        (["scale", "count=0"], SettingsError, "at least one replica"),
        (["scale", "cuont=2"], RefusedError, "did you mean 'count'"),
        (["scale", "count=2", "--strategy", "magic"], SettingsError, r"no strategy 'magic' \(known: restart, replay,"),
        (["scale", "count=2", "--strategy", "hybird"], SettingsError, r"'hybird'; did you mean 'hybrid'\? \(known: "),
        (["scale", "count=2", "--set", "pacng=1"], SettingsError, r"'pacng'; did you mean 'pacing'\? \(known: "),
        (["scale", "count=2", "--set", "strategy=1"], SettingsError, "no strategy '1'"),
        (["scale", "count=2", "--set", "pacing=2"], SettingsError, "pacing=2 must be above 0"),
        (["move", "count-3", "count-1"], SettingsError, "expected stage/partition"),
        (["move", "count/9", "count-1"], RefusedError, "no task count/9"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    served: Served, arguments: list[str], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text) as caught:
        run(served, *arguments)
    assert "\n" not in str(caught.value)


def test_the_coordinator_gets_its_settings_from_options_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[CoordinatorSettings] = []

    def run_coordinator(settings: CoordinatorSettings) -> int:
        seen.append(settings)
        return 0

    monkeypatch.setattr(towpath.coordinator.service, "run_coordinator", run_coordinator)
    monkeypatch.setenv("TOWPATH_COORDINATOR_HTTP_PORT", "7171")
    result = CliRunner().invoke(
        app, ["coordinator", "queries.key_count", "-o", "silence_s=5", "--http-host", "0.0.0.0"]
    )
    assert result.exit_code == 0, result.output
    assert (seen[0].http_port, seen[0].http_host, seen[0].limits.silence_s) == (7171, "0.0.0.0", 5.0)
    result = CliRunner().invoke(app, ["coordinator", "queries.key_count", "-o", "silence=5"])
    assert isinstance(result.exception, SettingsError)


def migration(left_s: float | None = None, **progress: object) -> MigrationStatus:
    return MigrationStatus(
        task="count/0", stage="count", partition=0, source="count-0", target="count-1", epoch=2, why="scale",
        strategy="hybrid", step="running", active=True, elapsed_s=3.0, progress=progress, left_s=left_s,
    )  # fmt: skip


def shown(*moves: MigrationStatus) -> str:
    from rich.console import Console

    console = Console(width=160, record=True, file=io.StringIO())
    console.print(migration_table(list(moves), None))
    return console.export_text()


def test_a_migration_shows_how_far_it_is_and_how_long_it_will_take() -> None:
    moving = migration(
        12.0, hot_keys=4000, bins_done=64, bins_total=256, bytes=32_000_000, rate=8_000_000.0, stalled=None
    )
    text = shown(moving, moving.model_copy(update={"stalled": "no holder answers for 30 s"}))
    for part in ("4,000", "64/256", "32 MB", "8 MB/s", "12 s", "stalled", "no holder answers for 30 s"):
        assert part in text


def test_a_restore_shows_how_much_of_the_changelog_it_has_read() -> None:
    text = shown(migration(700.0, records=1000, remaining=3000, bytes=50_000, rate=10_000.0))
    for part in ("records", "1,000/4,000", "50 kB", "10 kB/s", "12 min"):
        assert part in text
    assert "hot keys" not in text
    assert "bins" not in text


def test_a_migration_of_which_nothing_is_known_yet_is_shown_without_figures() -> None:
    assert "count-1" in shown(migration(phase="opening a store"))


def test_nothing_under_way_is_said_so() -> None:
    assert "nothing moves" in shown()
