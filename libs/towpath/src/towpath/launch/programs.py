"""Which processes a query needs, and what supervisord must know of them: pure text."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from towpath.errors import SettingsError

if TYPE_CHECKING:  # the command line starts without Polars
    from towpath.query.plan import QueryPlan

STOP_WAIT_S = 12
"""A replica exits within 10 s of SIGTERM; two more before it is killed."""

GRACE_S = 120.0
"""Time from SIGTERM to SIGKILL that a replica gets which hands over its tasks (R20)."""

EXPECTED_EXITS = (0, 1, 2)
"""Statuses by which a replica says that starting it again would not help; anything else is a crash: restart."""

COORDINATOR = "coordinator"
"""Name of the coordinator's process."""

_FIRST, _LATER = 1, 999
"""Supervisord's priorities: the lower starts earlier and stops later."""

_LINE_BREAK = re.compile(r"[\r\n]")
_COMMENT = re.compile(r"(\s)([;#])")
"""What starts a comment in supervisord's file, in the middle of a value too."""


@dataclass(frozen=True)
class Program:
    """One process.

    Attributes:
        name: unique in the pipeline.
        stage: which it runs, or what it is.
        command: its command line.
        stop_wait_s: from SIGTERM to SIGKILL.
        outlives: whether it is stopped after all those that need it.
    """

    name: str
    stage: str
    command: tuple[str, ...]
    stop_wait_s: int = STOP_WAIT_S
    outlives: bool = False


def replica_counts(plan: QueryPlan, replicas: Mapping[str, int]) -> dict[str, int]:
    """Replicas of every stage: as asked, else the stage's parallelism.

    Raises:
        SettingsError: an unknown stage, or a count below 1.
    """
    unknown = sorted(set(replicas) - set(plan.names))
    if unknown:
        raise SettingsError(f"query {plan.app!r} has no stage {unknown[0]!r}; its stages: {', '.join(plan.names)}")
    for stage, count in replicas.items():
        if count < 1:
            raise SettingsError(f"stage {stage!r} needs at least 1 replica, not {count}")
    return {stage.name: replicas.get(stage.name, stage.parallelism) for stage in plan.stages}


def programs_of(plan: QueryPlan, query: str, replicas: Mapping[str, int], options: Sequence[str] = ()) -> list[Program]:
    """One ``towpath stage`` process per replica, without a coordinator even if the environment names one.

    Args:
        plan: the query.
        query: module name by which a replica loads it.
        replicas: stage → count, for stages that differ from their parallelism.
        options: further options for every ``towpath stage``.
    """
    return [
        Program(
            f"{stage}-{index}",
            stage,
            (
                *(sys.executable, "-m", "towpath.cli", "stage", query, "--stage", stage),
                *("--replica-index", str(index), "--replica-count", str(count), "--die-with-parent"),
                *("--coordinator", ""),
                *options,
            ),
        )
        for stage, count in replica_counts(plan, replicas).items()
        for index in range(count)
    ]


def coordinator_program(query: str, port: int, options: Sequence[str] = ()) -> Program:
    """The ``towpath coordinator`` process, which is there until all that ask it are gone.

    Args:
        query: module name by which it loads the query.
        port: where it listens.
        options: further options of ``towpath coordinator``.
    """
    command = (sys.executable, "-m", "towpath.cli", "coordinator", query, "--http-port", str(port), "--die-with-parent")
    return Program(COORDINATOR, COORDINATOR, (*command, *options), outlives=True)


def pod_program(query: str, stage: str, name: str, url: str, options: Sequence[str] = ()) -> Program:
    """One ``towpath pod`` process: a replica and its state manager.

    Args:
        query: module name by which a replica loads it.
        stage: the stage.
        name: of the replica.
        url: the coordinator's.
        options: further options of ``towpath pod`` and ``towpath stage``.
    """
    command = (sys.executable, "-m", "towpath.cli", "pod", query, "--stage", stage, "--replica", name)
    grace_s = int(GRACE_S)
    return Program(
        name,
        stage,
        (*command, "--coordinator", url, "--grace", str(grace_s), "--die-with-parent", *options),
        stop_wait_s=grace_s,
    )


def render_config(programs: Sequence[Program], run_dir: Path) -> str:
    """Supervisord's configuration file.

    Raises:
        SettingsError: the directory or an argument is nothing that the file's format can hold.
    """
    directory = _path(run_dir)
    sections = [
        f"[unix_http_server]\nfile={directory}/supervisor.sock\nchmod=0700\n",
        "[supervisord]\nnodaemon=true\nsilent=true\nloglevel=warn\n"
        f"logfile={directory}/supervisord.log\npidfile={directory}/supervisord.pid\n",
        "[rpcinterface:supervisor]\nsupervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface\n",
        f"[supervisorctl]\nserverurl=unix://{directory}/supervisor.sock\n",
        *(_program_section(program, directory) for program in programs),
    ]
    return "\n".join(sections)


def _program_section(program: Program, directory: str) -> str:
    expected = ",".join(map(str, EXPECTED_EXITS))
    return (
        f"[program:{program.name}]\ncommand={_command(program)}\nautorestart=unexpected\nexitcodes={expected}\n"
        f"startsecs=0\nstopsignal=TERM\nstopwaitsecs={program.stop_wait_s}\nredirect_stderr=true\n"
        f"priority={_FIRST if program.outlives else _LATER}\n"
        f"stdout_logfile={directory}/{program.name}.log\nstdout_logfile_maxbytes=64MB\nstdout_logfile_backups=2\n"
    )


def _command(program: Program) -> str:
    """The command line, safe from the file's format: ``%`` expands, and a blank before ``;`` or ``#`` is a comment."""
    command = shlex.join(program.command)
    if _LINE_BREAK.search(command):
        raise SettingsError(f"a line break can't be passed on in an option of {program.name}")
    # A blank only ever stands within quotes, which can be closed and opened again.
    return _COMMENT.sub(r"\1''\2", command).replace("%", "%%")


def _path(directory: Path) -> str:
    text = str(directory)
    if "%" in text or _LINE_BREAK.search(text) or _COMMENT.search(text):
        raise SettingsError(f"--run-dir {text!r}: choose a directory without '%', ' ;', ' #' or line breaks")
    return text
