"""Waits until every stage of a query has read its input to the end."""

from __future__ import annotations

import time
from collections.abc import Callable

from statemgr.kafka.confluent import ConfluentKafka
from statemgr.kafka.ports import Consumer
from statemgr.layout import consumer_group
from statemgr.types import TopicPartition
from towpath.errors import TowpathError
from towpath.query.plan import QueryPlan, StagePlan

POLL_S = 0.25
CALL_TIMEOUT_S = 10.0

DRAIN_TIMEOUT_S = 60.0
"""At full speed a minute is worth millions of events; a stage that is not done by then is stuck."""


class NotDrainedError(TowpathError, TimeoutError):
    """A stage did not get to the end of its input in time."""


def wait_drained(kafka: ConfluentKafka, plan: QueryPlan, partitions: int, alive: Callable[[], None]) -> None:
    """Wait, stage by stage; ``alive`` raises when waiting makes no more sense.

    Raises:
        NotDrainedError: a stage is not done before the deadline.
    """
    deadline = time.monotonic() + DRAIN_TIMEOUT_S
    consumer = kafka.consumer(name="demo-lag")
    try:
        for stage in plan.stages:
            while (lag := _lag(consumer, stage, partitions)) > 0:
                alive()
                if time.monotonic() > deadline:
                    raise NotDrainedError(
                        f"stage {stage.name} still has {lag} records to read after {DRAIN_TIMEOUT_S:g} s"
                    )
                time.sleep(POLL_S)
    finally:
        consumer.close()


def _lag(consumer: Consumer, stage: StagePlan, partitions: int) -> int:
    sources = [TopicPartition(item.topic, index) for item in stage.inputs for index in range(partitions)]
    shown = consumer.committed(consumer_group(stage.app, stage.name), sources, CALL_TIMEOUT_S)
    return sum(consumer.bounds(source, CALL_TIMEOUT_S).end - (shown[source].offset or 0) for source in sources)
