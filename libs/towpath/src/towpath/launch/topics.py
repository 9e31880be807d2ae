"""Prepares the topics of a whole query before its processes start, so that what is wrong is said once."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from statemgr.kafka.confluent import ConfluentKafka
from towpath.query.plan import QueryPlan
from towpath.stage.topics import prepare_topics

WAIT_S = 30.0
"""Longest wait for broker and source topics."""


def prepare_query_topics(
    plan: QueryPlan, bootstrap: str, properties: Mapping[str, str], stop: threading.Event, wait_s: float = WAIT_S
) -> None:
    """Create what is missing, check what exists.

    Raises:
        KafkaUnavailableError, TopicMissingError, TopicMismatchError, StopRequestedError:
            see :func:`towpath.stage.topics.prepare_topics`.
    """
    admin = ConfluentKafka(bootstrap, properties).admin()
    try:
        for stage in plan.stages:
            prepare_topics(admin, stage, replication=-1, wait_s=wait_s, stop=stop.is_set, pause=stop.wait)
    finally:
        admin.close()
