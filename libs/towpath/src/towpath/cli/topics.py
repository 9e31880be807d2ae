"""``towpath topics``: creates and checks all topics of a query, once, before its stages start."""

from __future__ import annotations

import json
import threading
from typing import Annotated

import typer

from towpath.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    JsonOption,
    KafkaConfigOption,
    QueryArgument,
    SetOption,
    parse_pairs,
)


def topics(
    query: QueryArgument,
    bootstrap: BootstrapOption = None,
    source_partitions: Annotated[
        int | None, typer.Option(min=1, help="Create missing source topics with that many partitions")
    ] = None,
    wait_s: Annotated[float, typer.Option(help="Longest wait for broker and source topics, in seconds")] = 60.0,
    kafka_config: KafkaConfigOption = None,
    set_: SetOption = None,
    json_: JsonOption = False,
) -> None:
    """Create the missing topics of a query and check those that exist.

    Example: towpath topics queries.key_count --source-partitions 8
    """
    from towpath.launch.topics import prepare_query_topics
    from towpath.query.loading import load_query
    from towpath.stage.connect import connect

    names = prepare_query_topics(
        load_query(query, parse_pairs(set_, "--set")),
        connect(bootstrap or DEFAULT_BOOTSTRAP, kafka_config),
        threading.Event(),
        wait_s=wait_s,
        source_partitions=source_partitions,
    )
    typer.echo(json.dumps({"topics": names}) if json_ else "\n".join(names))
