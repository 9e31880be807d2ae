"""What the coordinator asks of Kafka's topics: the stages' partition counts, and its own log."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from statemgr.decisions import CLEANUP_POLICY_CONFIG
from statemgr.errors import KafkaUnavailableError, StopRequestedError, TopicMismatchError, TopicMissingError
from statemgr.kafka.ports import Admin, TopicInfo, TopicSpec
from statemgr.layout import control_topic
from towpath.coordinator.facts import StageFacts
from towpath.outline import Outline
from towpath.stage.partitions import input_partitions

CONTROL_CONFIG = {CLEANUP_POLICY_CONFIG: "compact"}
"""Compacted, so that the newest word about every task stays for ever; tombstones are never written."""

_CALL_TIMEOUT_S = 5.0
_RETRY_S = 0.5


def find_stages(admin: Admin, plan: Outline) -> list[StageFacts]:
    """The stages of a query with their numbers of tasks.

    Raises:
        TopicMissingError: a source topic does not exist.
        TopicMismatchError: a stateful stage's inputs differ in their partition counts.
        KafkaUnavailableError: no broker answered.
    """
    sources = sorted({item.topic for stage in plan.stages for item in stage.inputs if item.partitions is None})
    found = admin.describe(sources, _CALL_TIMEOUT_S) if sources else {}
    return [StageFacts(stage.name, input_partitions(stage, found), stage.stateful) for stage in plan.stages]


def prepare_control_topic(admin: Admin, app: str, replication: int) -> None:
    """Create the control log if it is missing, and refuse one whose settings would lose assignments.

    Raises:
        TopicMismatchError: another partition count, or not exactly compacted.
        TopicMissingError: it was created but is not visible yet.
        KafkaUnavailableError: no broker answered.
    """
    spec = TopicSpec(control_topic(app), 1, CONTROL_CONFIG)
    existing = admin.describe([spec.name], _CALL_TIMEOUT_S)
    if spec.name not in existing:
        admin.create([spec], replication, _CALL_TIMEOUT_S)
        existing = admin.describe([spec.name], _CALL_TIMEOUT_S)
    if spec.name not in existing:
        raise TopicMissingError(f"topic {spec.name} was created but is not visible yet")
    check_control_topic(existing[spec.name])


def check_control_topic(info: TopicInfo) -> None:
    """Refuse a control log that would lose assignments, or in which they would have no order.

    Raises:
        TopicMismatchError: the message has what was found and the remedy.
    """
    if info.partitions != 1:
        raise TopicMismatchError(
            f"control topic {info.name!r} has {info.partitions} partitions, but assignments need the one order of a "
            f"single partition. Stop the application and delete the topic (kafka-topics.sh --delete --topic "
            f"{info.name}): ownership begins anew, state stays in the changelogs; or start it under another name"
        )
    policy = info.config.get(CLEANUP_POLICY_CONFIG, "delete")
    if policy.replace(" ", "") != "compact":
        raise TopicMismatchError(
            f"control topic {info.name!r} has {CLEANUP_POLICY_CONFIG}={policy}, expected exactly compact, because any "
            f"other policy forgets who owns what. Set it: kafka-configs.sh --alter --entity-type topics --entity-name "
            f"{info.name} --add-config {CLEANUP_POLICY_CONFIG}=compact"
        )


def await_topics(
    admin: Admin,
    plan: Outline,
    *,
    replication: int,
    wait_s: float,
    stop: Callable[[], bool],
    pause: Callable[[float], object],
    monotonic_s: Callable[[], float] = monotonic,
) -> list[StageFacts]:
    """Prepare the control log and find the stages, waiting for broker and source topics until the deadline.

    Raises:
        KafkaUnavailableError: no broker answered in time.
        TopicMissingError: a source topic did not appear in time.
        TopicMismatchError: see :func:`prepare_control_topic`, :func:`find_stages`.
        StopRequestedError: asked to stop while waiting.
    """
    deadline_s = monotonic_s() + wait_s
    while True:
        try:
            prepare_control_topic(admin, plan.app, replication)
            return find_stages(admin, plan)
        except (KafkaUnavailableError, TopicMissingError):
            if monotonic_s() >= deadline_s:
                raise
        if stop():
            raise StopRequestedError("asked to stop while waiting for broker and topics")
        pause(_RETRY_S)
