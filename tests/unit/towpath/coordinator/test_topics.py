"""The coordinator's topics: partition counts of stages, and a control log that keeps its word."""

from __future__ import annotations

import pytest

from queries.key_count import query
from statemgr.errors import StopRequestedError, TopicMismatchError, TopicMissingError
from statemgr.kafka.ports import TopicSpec
from statemgr.testing.clock import ManualClock
from statemgr.testing.kafka import FakeKafka
from towpath.coordinator.facts import StageFacts
from towpath.coordinator.topics import await_topics, find_stages, prepare_control_topic

PLAN = query.plan()
SOURCE = PLAN.stages[0].inputs[0].topic


def test_stages_have_as_many_tasks_as_their_inputs_have_partitions() -> None:
    admin = FakeKafka().admin()
    admin.create([TopicSpec(SOURCE, 5)], 1, 1.0)
    facts = find_stages(admin, PLAN)
    assert [stage.name for stage in facts] == list(PLAN.names)
    assert facts[0].partitions == 5
    assert facts[-1] == StageFacts("count", PLAN.stage("count").inputs[0].partitions or 0, stateful=True)


def test_the_control_log_is_made_compacted_with_one_partition() -> None:
    kafka = FakeKafka()
    prepare_control_topic(kafka.admin(), "kc", 1)
    prepare_control_topic(kafka.admin(), "kc", 1)
    info = kafka.cluster.topics["kc.control"].info
    assert (info.partitions, info.config["cleanup.policy"]) == (1, "compact")


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (TopicSpec("kc.control", 2, {"cleanup.policy": "compact"}), "2 partitions.*single partition"),
        (TopicSpec("kc.control", 1), "cleanup.policy=delete, expected exactly compact.*--add-config"),
        (TopicSpec("kc.control", 1, {"cleanup.policy": "compact,delete"}), "expected exactly compact"),
    ],
)
def test_a_control_log_that_would_lose_assignments_is_refused(spec: TopicSpec, text: str) -> None:
    kafka = FakeKafka()
    kafka.admin().create([spec], 1, 1.0)
    with pytest.raises(TopicMismatchError, match=text):
        prepare_control_topic(kafka.admin(), "kc", 1)


def test_a_missing_source_is_waited_for_until_the_deadline() -> None:
    clock, kafka = ManualClock(), FakeKafka()
    with pytest.raises(TopicMissingError, match=SOURCE):
        await_topics(
            kafka.admin(), PLAN, replication=1, wait_s=3.0, stop=lambda: False, pause=clock.advance,
            monotonic_s=clock.monotonic_s,
        )  # fmt: skip
    assert clock.monotonic_s() == 3.0
    with pytest.raises(StopRequestedError):
        await_topics(
            kafka.admin(), PLAN, replication=1, wait_s=3.0, stop=lambda: True, pause=clock.advance,
            monotonic_s=clock.monotonic_s,
        )  # fmt: skip
