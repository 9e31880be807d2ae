"""``towpath pod``: one replica as a container runs it: the stage, and the state manager beside it."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated

import typer

from statemgr.addresses import coordinator_url
from statemgr.security import check_listening, read_credentials
from towpath.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    KafkaConfigOption,
    PlansOption,
    QueryArgument,
    SetOption,
    StateDirOption,
)
from towpath.launch.pod import MARGIN_S
from towpath.launch.programs import GRACE_S

DEFAULT_STATE_DIR = Path("build/state")
"""Of a stage's settings."""

PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
"""What this command does not know are options of ``towpath stage``, which checks them."""


def pod(
    context: typer.Context,
    query: QueryArgument,
    stage: Annotated[str, typer.Option(help="Stage to run", envvar="TOWPATH_STAGE")],
    coordinator: Annotated[
        str, typer.Option(help="URL of the coordinator, which says what the replica owns", envvar="TOWPATH_COORDINATOR")
    ],
    replica: Annotated[
        str | None,
        typer.Option(
            help="Name of the replica, unique in the application", envvar="TOWPATH_REPLICA", show_default="host name"
        ),
    ] = None,
    bootstrap: BootstrapOption = None,
    state_dir: StateDirOption = None,
    state_host: Annotated[
        str,
        typer.Option(
            help="Address at which the state manager listens; 0.0.0.0: all, under this machine's name",
            envvar="TOWPATH_STATE_HOST",
        ),
    ] = "127.0.0.1",
    grace: Annotated[
        float, typer.Option(help="Seconds from SIGTERM to SIGKILL that the container is given", envvar="TOWPATH_GRACE")
    ] = GRACE_S,
    kafka_config: KafkaConfigOption = None,
    set_: SetOption = None,
    plans: PlansOption = None,
    die_with_parent: Annotated[bool, typer.Option(help="Stop when the parent process dies", hidden=True)] = False,
) -> None:
    """Run one replica with its state manager until SIGTERM; it then hands over its tasks and exits.

    A crashed process is started again. Any other option is passed on to `towpath stage`.

    Example: towpath pod queries.key_count --stage count --coordinator http://127.0.0.1:7070 --replica count-0
    """
    from statemgr.deathsig import die_with_parent as tie
    from towpath.launch.run_pod import PodSettings, run_pod

    if die_with_parent:
        tie()
    credentials = read_credentials(os.environ)
    check_listening(state_host, credentials, "the state manager")
    settings = PodSettings(
        query=query,
        query_settings=set_ or (),
        stage=stage,
        coordinator=coordinator_url(coordinator, tls=credentials.tls is not None),
        replica=replica or socket.gethostname(),
        bootstrap=bootstrap or DEFAULT_BOOTSTRAP,
        state_dir=state_dir or DEFAULT_STATE_DIR,
        state_host=state_host,
        kafka_config=kafka_config,
        grace_s=max(grace - MARGIN_S, MARGIN_S),
        further=tuple(context.args),
        plans=plans,
        credentials=credentials,
    )
    raise typer.Exit(run_pod(settings))
