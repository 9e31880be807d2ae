"""The command line's options and error lines; what the commands do is tested where it is done."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import towpath.stage.service
from statemgr.errors import KafkaUnavailableError
from statemgr.testing.kafka import FakeKafka
from towpath.cli import app, main
from towpath.errors import SettingsError, StageStoppedError
from towpath.launch.programs import programs_of
from towpath.query.errors import QueryError
from towpath.query.loading import load_query
from towpath.stage.settings import Guarantee, StageSettings

QUERY = "queries.key_count"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def error_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit status and standard error of the command as it is installed."""
    monkeypatch.setattr(sys, "argv", ["towpath", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0), capsys.readouterr().err


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[StageSettings]:
    """Settings with which a stage would have been run."""
    seen: list[StageSettings] = []

    def run_stage(settings: StageSettings) -> int:
        seen.append(settings)
        return 0

    monkeypatch.setattr(towpath.stage.service, "run_stage", run_stage)
    return seen


def test_without_a_command_the_help_lists_all_of_them() -> None:
    result = run()
    for command in ("broker", "plan", "run", "stage", "state", "topics"):
        assert command in result.output


def test_every_command_explains_itself_with_an_example() -> None:
    for command in (["plan"], ["run"], ["stage"], ["state", "dump"], ["topics"]):
        result = run(*command, "--help")
        assert result.exit_code == 0
        assert "Example: towpath " in result.output


def test_stage_passes_its_options_on(started: list[StageSettings], tmp_path: Path) -> None:
    result = run(
        *("stage", QUERY, "--stage", "count", "--replica-index", "1", "--replica-count", "2"),
        *("--bootstrap", "k:9", "--state-dir", str(tmp_path), "--guarantee", "at-least-once"),
        *("--start-from", "latest", "--on-input-loss", "skip", "--http-port", "8080"),
        *("--set", "partitions=4", "-o", "commit_interval_ms=50"),
    )
    assert result.exit_code == 0, result.output
    (settings,) = started
    assert (settings.replica, settings.bootstrap, settings.state_dir) == ("count-1", "k:9", tmp_path)
    assert (settings.guarantee, settings.start_from) == (Guarantee.AT_LEAST_ONCE, "latest")
    assert (settings.on_input_loss, settings.http_port) == ("skip", 8080)
    assert (settings.query_settings, settings.commit_interval_ms) == ({"partitions": 4}, 50)


def test_stage_takes_the_rest_from_the_environment(
    started: list[StageSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"STAGE": "count", "BOOTSTRAP": "k:9", "REPLICA_INDEX": "2", "REPLICA_COUNT": "3"}.items():
        monkeypatch.setenv(f"TOWPATH_{name}", value)
    assert run("stage", QUERY).exit_code == 0
    assert (started[0].stage, started[0].bootstrap, started[0].replica) == ("count", "k:9", "count-2")


def test_a_stage_of_a_fixed_size_asks_no_coordinator_that_the_environment_names(
    started: list[StageSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable is also how the commands of operators find it."""
    monkeypatch.setenv("TOWPATH_COORDINATOR", "http://127.0.0.1:7070")
    program = programs_of(load_query(QUERY), QUERY, {})[-1]
    arguments = [each for each in program.command if each != "--die-with-parent"]
    assert run(*arguments[arguments.index("stage") :]).exit_code == 0
    assert not started[0].coordinator
    assert started[0].replica == program.name
    assert run("stage", QUERY, "--stage", "count").exit_code == 0
    assert started[1].coordinator == "http://127.0.0.1:7070"


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["stage", QUERY, "--stage", "count", "-o", "nonsense=1"], 2, "nonsense: no such setting"),
        (["stage", QUERY, "--stage", "count", "-o", "nonsense"], 2, "--option 'nonsense': expected name=value"),
        (["stage", QUERY, "--stage", "count", "--guarantee", "twice"], 2, "guarantee"),
        (["stage", QUERY, "--stage", "count", "--replica-index", "5"], 2, "replica index 5"),
        (["stage", QUERY, "--stage", "counter"], 2, "has no stage 'counter'; its stages: source, count"),
        (["plan", "key_count"], 2, "there is no module 'key_count'; did you mean 'queries.key_count'?"),
        (
            ["topics", QUERY, "--bootstrap", "localhost"],
            2,
            "server 'localhost': expected host:port, e.g.",
        ),
        (["run", QUERY, "--bootstrap", "localhost"], 2, "server 'localhost': expected host:port, e.g."),
        (["plan", "queries.key_cuont"], 2, "there is no module 'queries.key_cuont'"),
        (["plan", QUERY, "--format", "pdf"], 2, "--format pdf: expected one of text, json, mermaid, svg"),
        (["plan", QUERY, "--set", "partition=3"], 2, "no setting 'partition'"),
        (["run", QUERY, "--replicas", "count=many"], 2, "expected a whole number"),
        (["run", QUERY, "--replicas", "counter=2"], 2, "has no stage 'counter'"),
        (["state", "dump", QUERY, "--stage", "counter", "--output", "x.parquet"], 2, "has no stage 'counter'"),
        (["state", "dump", QUERY, "--stage", "count", "--output", "x", "--state-dir", "none"], 2, "no stores of stage"),
    ],
)
def test_an_error_of_the_user_is_one_line_and_status_2(
    arguments: list[str], status: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = error_of(monkeypatch, capsys, *arguments)
    (line,) = said.strip().splitlines()
    assert line.startswith("error: ")
    assert text in line
    assert code == status


@pytest.mark.parametrize(
    ("arguments", "who"),
    [
        (["coordinator", "queries.key_count", "--http-host", "0.0.0.0"], "the coordinator"),
        (["stage", "queries.key_count", "--stage", "count", "--http-host", "::"], "the stage"),
        (["pod", "queries.key_count", "--stage", "count", "--coordinator", "c:1", "--state-host", "10.0.0.7"],
         "the state manager"),
    ],
)  # fmt: skip
def test_outside_loopback_a_service_without_credentials_stops_at_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], who: str
) -> None:
    for name in ("TOWPATH_TOKEN_FILE", "TOWPATH_TLS_CERT", "TOWPATH_INSECURE"):
        monkeypatch.delenv(name, raising=False)
    code, said = error_of(monkeypatch, capsys, *arguments)
    assert (code, said.count("\n")) == (2, 1), said
    assert said.startswith(f"error: {who} would listen at ")
    assert "TOWPATH_TOKEN_FILE" in said


def test_a_token_file_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TOWPATH_TOKEN_FILE", "/nowhere/token")
    for arguments in (["tasks"], ["coordinator", "queries.key_count"]):
        code, said = error_of(monkeypatch, capsys, *arguments)
        assert (code, said) == (
            2,
            "error: TOWPATH_TOKEN_FILE: /nowhere/token can't be read: No such file or directory\n",
        )


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (SettingsError("a setting"), 2),
        (QueryError("a query"), 2),
        (StageStoppedError("going on would lose data"), 1),
        (KafkaUnavailableError("no answer from Kafka at k:9"), 1),
    ],
)
def test_each_kind_of_error_has_its_status(
    error: Exception, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: StageSettings) -> int:
        raise error

    monkeypatch.setattr(towpath.stage.service, "run_stage", fail)
    assert error_of(monkeypatch, capsys, "stage", QUERY, "--stage", "count") == (status, f"error: {error}\n")


def test_plan_prints_text_json_and_a_diagram() -> None:
    for form, text in {"text": "count", "json": '"stages"', "mermaid": "flowchart", "svg": "<svg"}.items():
        result = run("plan", QUERY, "--format", form)
        assert result.exit_code == 0
        assert text in result.output


@pytest.mark.slow
def test_the_command_line_starts_without_loading_polars() -> None:
    """It must be able to say how many threads Polars may have before that loads."""
    code = "import sys, towpath.cli; sys.exit('polars' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_any_setting_can_be_given_by_the_general_option(started: list[StageSettings]) -> None:
    result = run("stage", QUERY, "--stage", "count", "-o", "http_port=8080", "-o", "guarantee=at-least-once")
    assert result.exit_code == 0, result.output
    assert (started[0].http_port, started[0].guarantee) == (8080, Guarantee.AT_LEAST_ONCE)


@pytest.mark.parametrize(
    ("option", "text"), [("nope=1", "nope"), ("wait_s=x", "wait_s"), ("http_port=9555", "each takes a free port")]
)
def test_run_refuses_a_wrong_setting_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str, text: str
) -> None:
    status, err = error_of(monkeypatch, capsys, "run", QUERY, "-o", option)
    assert status == 2
    assert text in err
    assert len(err.splitlines()) == 1


def test_run_waits_for_the_broker_as_long_as_the_setting_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waits: list[float] = []

    def prepare(*_: object, wait_s: float) -> list[str]:
        waits.append(wait_s)
        raise KafkaUnavailableError("no broker")

    monkeypatch.setattr("towpath.launch.topics.prepare_query_topics", prepare)
    assert error_of(monkeypatch, capsys, "run", QUERY, "-o", "wait_s=4")[0] == 1
    assert waits == [4.0]


def test_the_version_is_that_of_the_package() -> None:
    result = run("--version")
    assert (result.exit_code, result.output) == (0, f"towpath {version('towpath')}\n")


def test_topics_names_the_wait_that_was_asked_for() -> None:
    result = run("topics", QUERY, "--bootstrap", "127.0.0.1:1", "--wait-s", "0.2", "--source-partitions", "4")
    assert isinstance(result.exception, KafkaUnavailableError)
    assert "no answer from Kafka at 127.0.0.1:1 within 0.2 s" in str(result.exception)


def test_topics_notes_a_source_that_exists_with_another_number_of_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = FakeKafka()
    monkeypatch.setattr("towpath.stage.connect.connect", lambda *_: kafka)
    created = run("topics", QUERY, "--source-partitions", "8")
    assert (created.exit_code, created.stderr) == (0, "")
    result = run("topics", QUERY, "--source-partitions", "4")
    assert result.exit_code == 0
    assert result.stdout == created.stdout
    (note,) = result.stderr.splitlines()
    assert note.startswith("note: topic nexmark-events exists with 8 partitions and is left as it is")
