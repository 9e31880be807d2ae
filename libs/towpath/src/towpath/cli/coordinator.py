"""``towpath coordinator``: decides who owns which task, as a container runs it."""

from __future__ import annotations

from typing import Annotated

import typer

from towpath.cli.options import (
    BootstrapOption,
    KafkaConfigOption,
    PlansOption,
    QueryArgument,
    SetOption,
    parse_pairs,
)

CoordinatorOption = Annotated[
    str | None,
    typer.Option(
        "--coordinator",
        help="URL of the coordinator",
        envvar="TOWPATH_COORDINATOR",
        show_default="http://127.0.0.1:7070",
    ),
]


def coordinator(
    query: QueryArgument,
    bootstrap: BootstrapOption = None,
    http_host: Annotated[
        str | None,
        typer.Option(help="Address to listen on; whoever reaches it can move tasks", show_default="127.0.0.1"),
    ] = None,
    http_port: Annotated[int | None, typer.Option(help="Port to listen on; 0: a free one", show_default="7070")] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of this coordinator in its log", show_default="the host's")
    ] = None,
    kafka_config: KafkaConfigOption = None,
    set_: SetOption = None,
    plans: PlansOption = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help="Any other setting of the coordinator, name=value, e.g. -o silence_s=5"),
    ] = None,
    die_with_parent: Annotated[bool, typer.Option(help="Stop when the parent process dies", hidden=True)] = False,
) -> None:
    """Run the coordinator of a query until SIGTERM; replicas go on without it, but nothing moves.

    Every option may also come from the environment as TOWPATH_COORDINATOR_<NAME>.

    Example: towpath coordinator queries.key_count --bootstrap 127.0.0.1:9092
    """
    from statemgr.deathsig import die_with_parent as tie
    from towpath.coordinator.service import run_coordinator
    from towpath.coordinator.settings import load_coordinator_settings

    if die_with_parent:
        tie()
    explicit = {
        "query": query,
        "query_settings": parse_pairs(set_, "--set"),
        "bootstrap": bootstrap,
        "kafka_config": kafka_config,
        "http_host": http_host,
        "http_port": http_port,
        "name": name,
        "plans": plans,
    }
    raise typer.Exit(run_coordinator(load_coordinator_settings(parse_pairs(option, "--option"), explicit)))
