from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import polars as pl
import pytest

from statemgr.errors import KafkaUnavailableError, StopRequestedError, TopicMismatchError, TopicMissingError
from statemgr.kafka.ports import TopicInfo, TopicSpec
from statemgr.testing.kafka import FakeKafka, ManualClock
from tests.unit.towpath.stage.plans import CHANGELOG, DEAD, SINK, SOURCE, count_stage, key_count, pass_stage
from towpath.query.plan import Edge, Format, InputPlan
from towpath.stage.partitions import input_partitions
from towpath.stage.topics import check_topic, created_topics, prepare_topics

WEEK_MS = str(7 * 24 * 3600 * 1000)


def info(name: str, partitions: int, **config: str) -> TopicInfo:
    return TopicInfo(name, partitions, "id", {name.replace("_", "."): value for name, value in config.items()})


def prepare(kafka: FakeKafka, clock: ManualClock, plan: Any = None, **options: Any) -> dict[str, TopicInfo]:
    given: dict[str, Any] = {
        "replication": 1,
        "wait_s": 5.0,
        "stop": lambda: False,
        "pause": clock.advance,
        "monotonic_s": clock.monotonic_s,
    }
    return prepare_topics(kafka.admin(), plan or count_stage(), **given | options)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def kafka(clock: ManualClock) -> FakeKafka:
    kafka = FakeKafka(clock)
    kafka.admin().create([TopicSpec(SOURCE, 2)], 1, 1.0)
    return kafka


def test_a_keyed_stage_makes_sink_changelog_and_dead_letter_topic() -> None:
    specs = {spec.name: spec for spec in created_topics(count_stage(partitions=3), tasks=2)}
    assert {name: spec.partitions for name, spec in specs.items()} == {SINK: 3, CHANGELOG: 2, DEAD: 1}
    assert specs[CHANGELOG].config["cleanup.policy"] == "compact"
    assert specs[SINK].config["retention.ms"] == specs[DEAD].config["retention.ms"] == "-1"
    assert {spec.config["message.timestamp.type"] for spec in specs.values()} == {"LogAppendTime"}


def test_an_inner_edge_is_made_by_both_its_ends_alike() -> None:
    plan = key_count().plan()
    (edge,) = plan.stage("count").inputs
    ends = [spec for stage in plan.stages for spec in created_topics(stage, 4) if spec.name == edge.topic]
    assert len(ends) == 2
    assert ends[0] == ends[1]
    assert ends[0].config["retention.ms"] == WEEK_MS


def test_a_forward_edge_has_as_many_partitions_as_the_stage_has_tasks() -> None:
    stage = pass_stage(edge=Edge.FORWARD)
    stage = replace(stage, outputs=(replace(stage.outputs[0], partitions=None),))
    assert {spec.name: spec.partitions for spec in created_topics(stage, 5)} == {SINK: 5, DEAD: 1}


def test_another_partition_count_is_refused_with_both_numbers_and_the_remedy() -> None:
    with pytest.raises(TopicMismatchError, match=r"counts has 5 partitions, but 2 .*--delete --topic counts"):
        check_topic(TopicSpec(SINK, 2), info(SINK, 5))


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (info(CHANGELOG, 8, cleanup_policy="compact"), r"8 partitions, the stage has 5 tasks.*--delete"),
        (info(CHANGELOG, 5, cleanup_policy="delete"), r"cleanup.policy=delete.*--alter.*cleanup.policy=compact"),
        (info(CHANGELOG, 5, cleanup_policy="compact,delete"), r"cleanup.policy=compact,delete"),
        (info(CHANGELOG, 5, cleanup_policy="compact", delete_retention_ms="1"), r"delete.retention.ms=1.*--alter"),
    ],
)
def test_a_changelog_that_would_lose_state_is_refused_with_the_remedy(found: TopicInfo, text: str) -> None:
    spec = TopicSpec(CHANGELOG, 5, {"cleanup.policy": "compact"})
    with pytest.raises(TopicMismatchError, match=text):
        check_topic(spec, found)


def test_the_tasks_of_a_keyed_stage_need_inputs_of_equal_partition_count() -> None:
    plan = count_stage()
    plan = replace(plan, inputs=(*plan.inputs, InputPlan("more", Format.JSON, {"auction": pl.Int64})))
    found = {SOURCE: info(SOURCE, 2), "more": info("more", 3)}
    with pytest.raises(TopicMismatchError, match=r"equal partition counts \(bids: 2, more: 3\)"):
        input_partitions(plan, found)
    assert input_partitions(replace(plan, tables=()), found) == 3


def test_a_keyed_stage_refuses_an_input_that_is_compacted(clock: ManualClock) -> None:
    kafka = FakeKafka(clock)
    kafka.admin().create([TopicSpec(SOURCE, 2, {"cleanup.policy": "compact,delete"})], 1, 1.0)
    with pytest.raises(TopicMismatchError, match=r"cleanup.policy=compact,delete, and stage count .*policy=delete"):
        prepare(kafka, clock)
    assert SOURCE in prepare(kafka, clock, pass_stage())


def test_what_is_missing_is_made_and_what_exists_is_left(kafka: FakeKafka, clock: ManualClock) -> None:
    infos = prepare(kafka, clock)
    assert {name: found.partitions for name, found in infos.items()} == {SOURCE: 2, SINK: 2, CHANGELOG: 2, DEAD: 1}
    assert prepare(kafka, clock) == infos


def test_a_source_that_appears_meanwhile_is_waited_for(clock: ManualClock) -> None:
    kafka = FakeKafka(clock)

    def pause(seconds: float) -> None:
        clock.advance(seconds)
        if clock.monotonic_s() >= 2.0:
            kafka.admin().create([TopicSpec(SOURCE, 2)], 1, 1.0)

    assert SOURCE in prepare(kafka, clock, pause=pause)
    assert 2.0 <= clock.monotonic_s() < 5.0


def test_a_source_that_never_appears_is_named_with_the_command_that_makes_it(clock: ManualClock) -> None:
    with pytest.raises(TopicMissingError, match=r"source topic bids does not exist.*--create --topic bids"):
        prepare(FakeKafka(clock), clock)
    assert 5.0 <= clock.monotonic_s() < 6.0


def test_an_output_that_towpath_does_not_make_is_waited_for_and_named(kafka: FakeKafka, clock: ManualClock) -> None:
    plan = count_stage()
    plan = replace(plan, outputs=(replace(plan.outputs[0], partitions=None),))
    with pytest.raises(TopicMissingError, match="output topic counts does not exist: create it first"):
        prepare(kafka, clock, plan)


def test_no_broker_is_waited_for_until_the_deadline(kafka: FakeKafka, clock: ManualClock) -> None:
    for _ in range(20):
        kafka.fail_next("describe", KafkaUnavailableError("no answer from 127.0.0.1:9092"))
    with pytest.raises(KafkaUnavailableError, match=r"127\.0\.0\.1:9092"):
        prepare(kafka, clock)
    assert 5.0 <= clock.monotonic_s() < 6.0


class SilentAdmin:
    """Of a broker that does not answer: every call takes the whole time that it is given."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def describe(self, names: Sequence[str], timeout_s: float) -> dict[str, TopicInfo]:
        self._clock.advance(timeout_s)
        raise KafkaUnavailableError(f"no answer within {timeout_s:g} s")


@pytest.mark.parametrize(
    ("wait_s", "text"),
    [
        (3.0, "no answer within 3 s"),
        (5.0, "no answer within 5 s"),
        (5.4, "waited 5.4 s for broker and topics; no answer within 5 s"),
        (7.0, "waited 7 s for broker and topics; no answer within 1.5 s"),
    ],
)
def test_the_wait_is_as_long_as_asked_for_and_named_so(clock: ManualClock, wait_s: float, text: str) -> None:
    with pytest.raises(KafkaUnavailableError, match=f"^{text}$"):
        prepare_topics(
            cast(Any, SilentAdmin(clock)), count_stage(), replication=1, wait_s=wait_s, stop=lambda: False,
            pause=clock.advance, monotonic_s=clock.monotonic_s,
        )  # fmt: skip
    assert wait_s - 0.5 < clock.monotonic_s() <= wait_s


def test_a_broker_that_comes_back_is_enough(kafka: FakeKafka, clock: ManualClock) -> None:
    for _ in range(3):
        kafka.fail_next("describe", KafkaUnavailableError("no answer"))
    kafka.fail_next("create", KafkaUnavailableError("no answer"), after=True)
    assert SINK in prepare(kafka, clock)


@pytest.mark.parametrize("cause", [KafkaUnavailableError("no answer"), TopicMissingError("no topic")])
def test_a_stop_request_ends_the_wait(kafka: FakeKafka, clock: ManualClock, cause: Exception) -> None:
    asked: list[Callable[[], None]] = []
    kafka.fail_next("describe", cause)
    with pytest.raises(StopRequestedError, match="while waiting for broker and topics"):
        prepare(kafka, clock, stop=lambda: not asked)
    assert clock.monotonic_s() == 0.0


def test_a_mismatch_is_not_waited_for(kafka: FakeKafka, clock: ManualClock) -> None:
    kafka.admin().create([TopicSpec(SINK, 9)], 1, 1.0)
    with pytest.raises(TopicMismatchError, match="counts has 9 partitions"):
        prepare(kafka, clock)
    assert clock.monotonic_s() == 0.0
