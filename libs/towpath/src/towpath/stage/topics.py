"""The topics of a stage: which there must be, how they must be set, and the remedy where they are not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic

from statemgr.decisions import check_changelog_topic
from statemgr.errors import KafkaUnavailableError, StopRequestedError, TopicMismatchError, TopicMissingError
from statemgr.kafka.ports import Admin, TopicInfo, TopicSpec
from statemgr.layout import changelog_topic, dead_letter_topic
from towpath.query.plan import Edge, StagePlan
from towpath.stage.partitions import input_partitions

_APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
_KEEP = {"retention.ms": "-1"}

_EDGE_RETENTION = {"retention.ms": str(7 * 24 * 3600 * 1000)}
"""Seven days: a stage may be down for a long weekend without losing its input."""

SOURCE_CONFIG = _APPEND_TIME | _KEEP
"""Settings of a source topic that is made here: event time may lie years back, so age must not delete."""

_CHANGELOG = {"cleanup.policy": "compact"}

_CALL_TIMEOUT_S = 5.0
"""Longest administration call, so that a stop is heeded; at start they repeat until the wait's deadline."""

_RETRY_S = 0.5
"""Between two tries, and the shortest time that a call gets."""


def created_topics(plan: StagePlan, tasks: int) -> list[TopicSpec]:
    """Topics that a stage makes when they are missing.

    Args:
        plan: the stage.
        tasks: number of the stage's tasks, which is the partition count of its changelog.
    """
    specs = [
        TopicSpec(item.topic, item.partitions, _APPEND_TIME | _EDGE_RETENTION)
        for item in plan.inputs
        if item.partitions is not None
    ]
    specs += [
        TopicSpec(item.topic, item.partitions or tasks, _APPEND_TIME | (_EDGE_RETENTION if item.inner else _KEEP))
        for item in plan.outputs
        if item.partitions is not None or item.edge is Edge.FORWARD
    ]
    if plan.stateful:
        specs.append(TopicSpec(changelog_topic(plan.app, plan.name), tasks, _APPEND_TIME | _CHANGELOG))
    specs.append(TopicSpec(dead_letter_topic(plan.app), 1, _APPEND_TIME | _KEEP))
    return specs


def check_topic(spec: TopicSpec, found: TopicInfo) -> None:
    """Compare what exists with what must hold.

    Raises:
        TopicMismatchError: another partition count, or a changelog whose settings would lose state.
    """
    if spec.config.get("cleanup.policy") == "compact":
        check_changelog_topic(found, spec.partitions)
    if found.partitions != spec.partitions:
        raise TopicMismatchError(
            f"topic {spec.name} has {found.partitions} partitions, but {spec.partitions} are needed: delete it "
            f"(kafka-topics --delete --topic {spec.name}), or start the application under another name"
        )


def check_inputs(plan: StagePlan, found: Mapping[str, TopicInfo]) -> None:
    """Refuse inputs from which a stateful stage would miss records (R22).

    Raises:
        TopicMismatchError: an input is compacted.
    """
    for item in plan.inputs:
        policy = found[item.topic].config.get("cleanup.policy", "")
        if plan.stateful and "compact" in policy:
            raise TopicMismatchError(
                f"topic {item.topic} has cleanup.policy={policy}, and stage {plan.name} keeps state: compaction "
                "removes records before they are counted. kafka-configs --alter --entity-type topics --entity-name "
                f"{item.topic} --add-config cleanup.policy=delete, or copy the topic to one that is not compacted"
            )


def prepare_topics(
    admin: Admin,
    plan: StagePlan,
    *,
    replication: int,
    wait_s: float,
    stop: Callable[[], bool],
    pause: Callable[[float], object],
    monotonic_s: Callable[[], float] = monotonic,
) -> dict[str, TopicInfo]:
    """Create what is missing, check what exists; wait for broker and source topics until the deadline.

    Raises:
        KafkaUnavailableError: no broker answered in time; names the whole wait.
        TopicMissingError: a source topic did not appear in time.
        TopicMismatchError: see :func:`check_topic`.
        StopRequestedError: asked to stop while waiting.
    """
    deadline_s = monotonic_s() + wait_s

    def call_s() -> float:
        return min(_CALL_TIMEOUT_S, max(round(deadline_s - monotonic_s(), 1), _RETRY_S))

    while True:
        try:
            return _prepare_once(admin, plan, replication, call_s)
        except (KafkaUnavailableError, TopicMissingError) as error:
            if monotonic_s() + _RETRY_S > deadline_s:
                if type(error) is KafkaUnavailableError and wait_s > _CALL_TIMEOUT_S:
                    raise KafkaUnavailableError(f"waited {wait_s:g} s for broker and topics; {error}") from error
                raise
        if stop():
            raise StopRequestedError("asked to stop while waiting for broker and topics")
        pause(_RETRY_S)


def _prepare_once(admin: Admin, plan: StagePlan, replication: int, call_s: Callable[[], float]) -> dict[str, TopicInfo]:
    given = [item.topic for item in plan.inputs if item.partitions is None]
    given += [item.topic for item in plan.outputs if item.partitions is None]
    found = admin.describe(given, call_s()) if given else {}
    specs = created_topics(plan, input_partitions(plan, found))
    names = [spec.name for spec in specs]
    existing = admin.describe(names, call_s())
    missing = [spec for spec in specs if spec.name not in existing]
    if missing:
        admin.create(missing, replication, call_s())
        existing = admin.describe(names, call_s())
    for spec in specs:
        if spec.name not in existing:
            raise TopicMissingError(f"topic {spec.name} was created but is not visible yet")
        check_topic(spec, existing[spec.name])
    for item in plan.outputs:
        if item.topic not in found and item.topic not in existing:
            raise TopicMissingError(f"output topic {item.topic} does not exist: create it first")
    topics = {**found, **existing}
    check_inputs(plan, topics)
    return topics
