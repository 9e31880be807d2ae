"""What is launched, as supervisord's own parser reads it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from supervisor.options import ServerOptions

from tests.unit.towpath.stage.plans import key_count
from towpath.errors import SettingsError
from towpath.launch.programs import STOP_WAIT_S, Program, programs_of, render_config, replica_counts

PLAN = key_count().plan()

AWKWARD = [
    "a b",
    "it's",
    'say "x"',
    "50%",
    "%(here)s",
    "%(ENV_HOME)s",
    "x ; y",
    "x # y",
    ";",
    "#x",
    "\\",
    "ä",
    "$HOME",
    "",
]


def parsed(programs: list[Program], run_dir: Path) -> dict[str, Any]:
    """Program name → supervisord's idea of it."""
    config = run_dir / "supervisord.conf"
    config.write_text(render_config(programs, run_dir), encoding="utf-8")
    options = ServerOptions()
    options.realize(args=["-c", str(config)])
    return {config.name: config for group in options.process_group_configs for config in group.process_configs}


def test_every_replica_of_every_stage_is_one_process() -> None:
    programs = programs_of(PLAN, "queries.key_count", {"count": 2}, ["--bootstrap", "k:9"])
    assert [(program.name, program.stage) for program in programs] == [
        ("source-0", "source"),
        ("count-0", "count"),
        ("count-1", "count"),
    ]
    assert programs[2].command == (
        *(sys.executable, "-m", "towpath.cli", "stage", "queries.key_count", "--stage", "count"),
        *(
            "--replica-index",
            "1",
            "--replica-count",
            "2",
            "--die-with-parent",
            "--coordinator",
            "",
            "--bootstrap",
            "k:9",
        ),
    )


def test_a_stage_that_is_not_named_has_its_parallelism() -> None:
    assert replica_counts(PLAN, {}) == {"source": 1, "count": 1}
    assert replica_counts(PLAN, {"source": 3}) == {"source": 3, "count": 1}


def test_an_unknown_stage_is_named_with_those_there_are() -> None:
    with pytest.raises(SettingsError, match=r"query 'kc' has no stage 'counter'; its stages: source, count"):
        replica_counts(PLAN, {"counter": 2})


def test_a_stage_without_replicas_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"stage 'count' needs at least 1 replica, not 0"):
        replica_counts(PLAN, {"count": 0})


def test_a_crash_is_restarted_but_not_an_end_that_a_replica_meant(tmp_path: Path) -> None:
    (config,) = parsed([Program("count-0", "count", ("python",))], tmp_path).values()
    assert config.exitcodes == [0, 1, 2]
    assert config.autorestart.__name__ == "RestartWhenExitUnexpected"
    assert (config.stopwaitsecs, config.startsecs, config.redirect_stderr) == (STOP_WAIT_S, 0, True)
    assert config.stdout_logfile == str(tmp_path / "count-0.log")


@pytest.mark.parametrize("argument", AWKWARD)
def test_every_argument_reaches_the_process_as_it_is(argument: str, tmp_path: Path) -> None:
    command = ("python", "--set", f"text={argument}", argument, "--last")
    (config,) = parsed([Program("count-0", "count", command)], tmp_path).values()
    assert shlex.split(config.command) == list(command)


@pytest.mark.parametrize("name", ["with space", "a;b", "a#b", "ä"])
def test_a_directory_may_have_any_name(name: str, tmp_path: Path) -> None:
    run_dir = tmp_path / name
    run_dir.mkdir()
    (config,) = parsed([Program("count-0", "count", ("python",))], run_dir).values()
    assert config.stdout_logfile == str(run_dir / "count-0.log")


def test_an_argument_that_supervisord_has_no_form_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"a line break .* of count-0"):
        render_config([Program("count-0", "count", ("python", "a\nb"))], tmp_path)


@pytest.mark.parametrize("name", ["x ; y", "x #y", "a\nb", "50%", "%(here)s"])
def test_a_directory_that_supervisord_has_no_form_for_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"--run-dir .*: choose a directory without"):
        render_config([], tmp_path / name)
