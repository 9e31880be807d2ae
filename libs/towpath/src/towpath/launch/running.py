"""Runs a query as local processes, and tells the operator what becomes of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from statemgr.addresses import coordinator_url
from statemgr.security import read_credentials
from towpath.broker.errors import PortTakenError
from towpath.broker.ports import check_port, free_port
from towpath.errors import SettingsError
from towpath.launch.fleet import replica_name
from towpath.launch.follow import Follower
from towpath.launch.pipeline import Pipeline, ProcessState
from towpath.launch.programs import COORDINATOR, Program, coordinator_program, pod_program, programs_of, replica_counts
from towpath.query.plan import QueryPlan

LOOK_S = 0.5
"""How often the processes' states are looked at."""

LAST_LINES = 5
REASON, REASON_WITHIN = "stopped: ", 200
"""How a stage's last word begins, and how far from the end of the log it may be."""


@dataclass
class Running:
    """A query that is run.

    Attributes:
        plan: the query.
        query: module name by which its processes load it.
        asked: stage → replicas, as the operator has said.
        stage_options: of every replica.
        coordinator_options: of the coordinator.
        run_dir: directory of logs and control files.
        stop: set to end.
        say: tells the operator.
        ended: process that ended for good → its exit status.
        told: process → id of the run that the operator was told of last.
    """

    plan: QueryPlan
    query: str
    asked: Mapping[str, int]
    stage_options: Sequence[str]
    coordinator_options: Sequence[str]
    run_dir: Path
    stop: threading.Event
    say: Callable[[str], None]
    ended: dict[str, int] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)

    @property
    def counts(self) -> dict[str, int]:
        """Replicas of every stage at the start.

        Raises:
            SettingsError: see :func:`replica_counts`.
        """
        return replica_counts(self.plan, self.asked)


def run_static(running: Running) -> int:
    """Run a fixed number of replicas until asked to stop; gives the exit status."""
    programs = programs_of(running.plan, running.query, running.asked, running.stage_options)
    with Pipeline(programs, running.run_dir) as pipeline:
        running.say(f"{running.plan.app}: {len(programs)} processes; logs in {running.run_dir}")
        return _watch(running, pipeline, None)


def run_coordinated(running: Running, port: int) -> int:
    """Run a coordinator and as many replicas as it wants until asked to stop; gives the exit status.

    Raises:
        SettingsError: the port is taken, perhaps by another application's coordinator, which must not be followed.
    """
    from towpath.coordinator.client import CoordinatorClient

    port = _checked(port) if port else free_port()
    credentials = read_credentials(os.environ)
    url = coordinator_url(f"127.0.0.1:{port}", tls=credentials.tls is not None)

    def make(stage: str, name: str) -> Program:
        return pod_program(running.query, stage, name, url, running.stage_options)

    if COORDINATOR in running.counts:
        raise SettingsError(f"a stage can't be called {COORDINATOR!r} here: its logs would be the coordinator's")
    programs = [coordinator_program(running.query, port, running.coordinator_options)]
    programs += [
        make(stage, replica_name(stage, index)) for stage, count in running.counts.items() for index in range(count)
    ]
    with Pipeline(programs, running.run_dir) as pipeline, CoordinatorClient(url, credentials=credentials) as client:
        running.say(
            f"{running.plan.app}: coordinator at {url} and {len(programs) - 1} replicas; logs in {running.run_dir}"
        )
        return _watch(running, pipeline, Follower(pipeline, client, running.counts, running.asked, make, running.say))


def _watch(running: Running, pipeline: Pipeline, follower: Follower | None) -> int:
    """Report every change of a process until asked to stop, or until one can't go on."""
    while not running.stop.wait(LOOK_S):
        states = pipeline.states()
        leaving = follower.leaving if follower is not None else frozenset()
        for state in states:
            _report_change(running, state)
            if state.given_up and state.name not in leaving and state.name not in running.ended:
                _report_end(running, pipeline, state)
                if follower is None or not follower.survives(state.name, states):
                    return state.exit_status or 1
                running.say("the others of its stage take over its tasks; towpath run again starts it again")
        if follower is not None:
            follower.look(states)
    return max(running.ended.values(), default=0)


def _report_change(running: Running, state: ProcessState) -> None:
    if state.stopped:
        running.told.pop(state.name, None)
    if state.state != "RUNNING" or running.told.get(state.name) == state.pid:
        return
    happened = "crashed and was started again" if state.name in running.told else "runs"
    running.say(f"{state.name} {happened} (pid {state.pid})")
    running.told[state.name] = state.pid


def _report_end(running: Running, pipeline: Pipeline, state: ProcessState) -> None:
    running.ended[state.name] = state.exit_status
    running.say(f"{state.name} ended with status {state.exit_status}; its last lines:")
    text = pipeline.log_file(state.name).read_text(encoding="utf-8", errors="replace")
    for line in last_lines(text.splitlines()):
        running.say(f"  {line}")


def last_lines(lines: Sequence[str]) -> list[str]:
    """The end of a log, and before it the reason that a stage gave for its end: its state manager has the last word."""
    earlier, last = lines[-REASON_WITHIN:-LAST_LINES], list(lines[-LAST_LINES:])
    reasons = [line for line in earlier if REASON in line]
    return reasons[-1:] + last


def _checked(port: int) -> int:
    try:
        check_port(port)
    except PortTakenError as error:
        raise SettingsError(f"--coordinator-port: {error}") from error
    return port
