"""``towpath topics``: creates and checks all topics of a query, once, before its stages start."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from statemgr.kafka.ports import TopicInfo


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
    from towpath.launch.topics import prepare_query_topics, source_topics
    from towpath.query.loading import load_query
    from towpath.stage.connect import connect

    plan = load_query(query, parse_pairs(set_, "--set"))
    kafka = connect(bootstrap or DEFAULT_BOOTSTRAP, kafka_config)
    deadline_s = time.monotonic() + wait_s
    existing = kafka.admin().describe(source_topics(plan), wait_s)
    if source_partitions is not None:
        _note_others(existing.values(), source_partitions)
    names = prepare_query_topics(
        plan,
        kafka,
        threading.Event(),
        wait_s=max(round(deadline_s - time.monotonic(), 1), 0.0),
        source_partitions=source_partitions,
    )
    typer.echo(json.dumps({"topics": names}) if json_ else "\n".join(names))


def _note_others(existing: Iterable[TopicInfo], partitions: int) -> None:
    """Say which source topics stay as they are although another number was asked for."""
    for topic in existing:
        if topic.partitions != partitions:
            typer.echo(
                f"note: topic {topic.name} exists with {topic.partitions} partitions and is left as it is; "
                f"--source-partitions {partitions} is for topics that are missing",
                err=True,
            )
