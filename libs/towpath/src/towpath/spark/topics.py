"""The topics of a query that runs on Spark: its sources must exist, its sinks are made; it has no others."""

from __future__ import annotations

from collections.abc import Sequence

from statemgr.errors import TopicMissingError
from statemgr.kafka.ports import Admin, TopicSpec
from towpath.query.graph import Graph, Source

_CALL_TIMEOUT_S = 10.0

_SINK = {"message.timestamp.type": "LogAppendTime", "retention.ms": "-1"}
"""As services make them."""


def prepare_topics(admin: Admin, graph: Graph, *, sinks: bool) -> list[str]:
    """Check that sources exist; ``sinks``: make those that are missing.

    Returns:
        The sinks that were made.

    Raises:
        TopicMissingError: a source topic does not exist.
        KafkaUnavailableError: no broker answers.
    """
    sources = sorted({node.topic for node in graph.nodes if isinstance(node, Source)})
    found = admin.describe([*sources, *(sink.topic for sink in graph.sinks)], _CALL_TIMEOUT_S)
    _require(sources, list(found))
    missing = [sink for sink in graph.sinks if sink.topic not in found] if sinks else []
    if missing:
        specs = [TopicSpec(sink.topic, sink.partitions or graph.partitions, _SINK) for sink in missing]
        admin.create(specs, -1, _CALL_TIMEOUT_S)
    return [sink.topic for sink in missing]


def _require(sources: Sequence[str], found: Sequence[str]) -> None:
    for topic in sources:
        if topic not in found:
            raise TopicMissingError(f"source topic {topic} does not exist: create it and write its records first")
