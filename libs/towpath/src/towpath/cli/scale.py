"""``towpath scale`` and ``towpath move``: other numbers of replicas, and other owners, while the query runs."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statemgr.security import read_credentials
from towpath.cli.coordinator import CoordinatorOption
from towpath.cli.options import JsonOption, parse_counts, parse_pairs
from towpath.errors import SettingsError, nearest

if TYPE_CHECKING:
    from statemgr.control.records import Manner
    from towpath.coordinator.client import CoordinatorClient
    from towpath.coordinator.statuses import StageStatus, TaskStatus

WAIT_S = 300.0
"""Longest wait for a rescale: a copy of the state before the move may take as long."""

_LOOK_S = 0.2

WaitOption = Annotated[bool, typer.Option("--wait", help="Wait until every task runs where it should")]
TimeoutOption = Annotated[float, typer.Option("--timeout", min=0.1, help="Longest wait, in seconds")]


def scale(
    counts: Annotated[list[str], typer.Argument(help="Stage and number of replicas, e.g. count=3", metavar="STAGE=N…")],
    strategy: Annotated[
        str | None,
        typer.Option(help="restart, replay, block, precopy, standby, lazy or hybrid", show_default="as it was"),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="How state travels, e.g. --set pacing=0.5 --set bins=64; may be repeated"),
    ] = None,
    wait: WaitOption = False,
    timeout: TimeoutOption = WAIT_S,
    coordinator: CoordinatorOption = None,
    json_: JsonOption = False,
) -> None:
    """Change how many replicas of a stage own tasks; tasks move while the others are processed on.

    Example: towpath scale count=3 --strategy hybrid --set pacing=0.5 --wait
    """
    from towpath.coordinator.messages import ScaleRequest

    wanted = parse_counts(counts, "scale")
    for stage, count in wanted.items():
        if count < 1:
            raise SettingsError(f"scale {stage}={count}: a stage needs at least one replica; stop it to have none")
    with client_of(coordinator) as client:
        stages = {status.stage: status for status in client.topology().stages}
        for stage, count in wanted.items():
            manner = _manner(stages.get(stage), strategy, parse_pairs(set_, "--set"))
            client.scale(ScaleRequest(stage=stage, replicas=count, manner=manner))
        statuses = [_await_settled(client, stage, timeout if wait else 0.0) for stage in wanted]
    _tell(statuses, json_, wait)


def move(
    task: Annotated[str, typer.Argument(help="Task, as stage/partition, e.g. count/3")],
    replica: Annotated[str, typer.Argument(help="Replica that is to own it, e.g. count-1")],
    wait: WaitOption = False,
    timeout: TimeoutOption = WAIT_S,
    coordinator: CoordinatorOption = None,
    json_: JsonOption = False,
) -> None:
    """Move one task to one replica; it stays until that leaves, the stage is scaled or the coordinator restarts.

    Example: towpath move count/3 count-1 --wait
    """
    from towpath.coordinator.messages import MoveRequest

    stage, partition = parse_task(task)
    with client_of(coordinator) as client:
        accepted = client.move(MoveRequest(stage=stage, partition=partition, replica=replica))
        found = _await_task(client, task, replica, timeout if wait else 0.0)
    if json_:
        typer.echo(json.dumps({"moves": accepted.moves, "task": found.model_dump(mode="json")}))
    elif accepted.moves == 0:
        typer.echo(f"{task} belongs to {replica} already")
    else:
        typer.echo(f"{task} {'runs at' if wait else 'will move to'} {replica} (epoch {found.epoch})")


def client_of(url: str | None) -> CoordinatorClient:
    """A client of the coordinator at that URL, or at the usual one, with the credentials of the environment."""
    from towpath.coordinator.client import DEFAULT_ADDRESS, REQUEST_TIMEOUT_S, CoordinatorClient

    credentials = read_credentials(os.environ)
    return CoordinatorClient(url or DEFAULT_ADDRESS, timeout_s=REQUEST_TIMEOUT_S, credentials=credentials)


def parse_task(text: str) -> tuple[str, int]:
    """``stage/partition``.

    Raises:
        SettingsError: it is not of that form.
    """
    stage, _, partition = text.rpartition("/")
    if not stage or not partition.isdecimal():
        raise SettingsError(f"task {text!r}: expected stage/partition, e.g. count/3")
    return stage, int(partition)


def _manner(status: StageStatus | None, strategy: str | None, switches: dict[str, Any]) -> Manner | None:
    """The stage's manner with what was named changed; None: nothing was."""
    import msgspec

    from statemgr.control.records import Manner, Strategy

    if strategy is None and not switches:
        return None
    before = msgspec.to_builtins(status.manner) if status is not None else {}
    named = switches | ({} if strategy is None else {"strategy": strategy})
    for name in switches:
        _check_name("switch", name, Manner.__struct_fields__)
    if "strategy" in named:
        _check_name("strategy", str(named["strategy"]), [str(each) for each in Strategy])
    try:
        return msgspec.convert(before | named, Manner)
    except msgspec.ValidationError as error:
        raise SettingsError(f"how state travels: {error}") from error


def _check_name(kind: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise SettingsError(f"how state travels: no {kind} {name!r}{nearest(name, known)} (known: {', '.join(known)})")


def _await_settled(client: CoordinatorClient, stage: str, timeout_s: float) -> StageStatus:
    deadline_s = time.monotonic() + timeout_s
    while True:
        status = next(each for each in client.topology().stages if each.stage == stage)
        if status.settled or timeout_s == 0:
            return status
        if time.monotonic() >= deadline_s:
            raise _too_late(f"stage {stage} is not settled", timeout_s, status.waiting_for or "")
        time.sleep(_LOOK_S)


def _await_task(client: CoordinatorClient, task: str, replica: str, timeout_s: float) -> TaskStatus:
    deadline_s = time.monotonic() + timeout_s
    while True:
        found = next(each for each in client.tasks() if each.task == task)
        if timeout_s == 0 or (found.owner == replica and found.state == "running"):
            return found
        if time.monotonic() >= deadline_s:
            raise _too_late(f"{task} does not run at {replica}", timeout_s, f"{found.state} at {found.owner}")
        time.sleep(_LOOK_S)


def _too_late(what: str, timeout_s: float, seen: str) -> Exception:
    from towpath.coordinator.errors import CoordinatorError

    return CoordinatorError(f"{what} after {timeout_s:g} s: {seen}; it goes on (towpath migrations --watch)")


def _tell(statuses: list[StageStatus], json_: bool, waited: bool) -> None:
    if json_:
        typer.echo(json.dumps([status.model_dump(mode="json") for status in statuses]))
        return
    for status in statuses:
        wanted = f"{status.stage}: {status.desired} replicas wanted, state travels by {status.manner.strategy}"
        if waited:
            typer.echo(f"{wanted}; every task runs where it should, {status.incomplete} still fetch state")
        else:
            typer.echo(f"{wanted}; {len(status.members)} are there")
