"""Prepares the topics of a whole query before its processes start, so that what is wrong is said once."""

from __future__ import annotations

import threading

from statemgr.kafka.ports import Admin, Kafka, TopicSpec
from towpath.query.plan import QueryPlan
from towpath.stage.topics import SOURCE_CONFIG, prepare_topics

WAIT_S = 30.0
"""Longest wait for broker and source topics."""

_CALL_TIMEOUT_S = 10.0


def prepare_query_topics(
    plan: QueryPlan,
    kafka: Kafka,
    stop: threading.Event,
    *,
    wait_s: float = WAIT_S,
    source_partitions: int | None = None,
) -> list[str]:
    """Create what is missing, check what exists.

    Args:
        plan: the query.
        kafka: the cluster.
        stop: set to give up waiting.
        wait_s: longest wait for broker and source topics.
        source_partitions: create missing source topics with that many partitions; None: wait for them.

    Returns:
        Names of all topics of the query.

    Raises:
        KafkaUnavailableError, TopicMissingError, TopicMismatchError, StopRequestedError:
            see :func:`towpath.stage.topics.prepare_topics`.
    """
    admin = kafka.admin()
    try:
        if source_partitions is not None:
            _create_sources(admin, plan, source_partitions)
        names: set[str] = set()
        for stage in plan.stages:
            names |= prepare_topics(
                admin, stage, replication=-1, wait_s=wait_s, stop=stop.is_set, pause=stop.wait
            ).keys()
        return sorted(names)
    finally:
        admin.close()


def source_topics(plan: QueryPlan) -> list[str]:
    """Topics that the query reads and no stage of it makes."""
    return sorted({item.topic for stage in plan.stages for item in stage.inputs if item.partitions is None})


def _create_sources(admin: Admin, plan: QueryPlan, partitions: int) -> None:
    existing = admin.describe(source_topics(plan), _CALL_TIMEOUT_S)
    missing = [TopicSpec(name, partitions, SOURCE_CONFIG) for name in source_topics(plan) if name not in existing]
    if missing:
        admin.create(missing, -1, _CALL_TIMEOUT_S)
