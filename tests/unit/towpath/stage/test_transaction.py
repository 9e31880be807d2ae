"""What a transaction holds and in which order: outputs, changelog, progress last, offsets, commit."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from statemgr.errors import ProducerLostError, RetryableKafkaError, StopRequestedError
from statemgr.kafka.ports import TopicSpec
from statemgr.layout import PROGRESS_KEY
from statemgr.progress import InputProgress, Progress
from statemgr.testing.kafka import FakeKafka
from statemgr.types import TopicPartition
from tests.unit.towpath.stage.plans import CHANGELOG, SINK, SOURCE
from towpath.errors import TowpathError
from towpath.stage.settings import Guarantee
from towpath.stage.transaction import INIT_STEP_S, INIT_TIMEOUT_S, TaskChanges, Transactor

GROUP = "kc.count"
OFFSETS = {TopicPartition(SOURCE, 0): (5, "note")}


class Desk:
    """A transactor on an in-memory Kafka, and the calls that its clients make."""

    def __init__(self, guarantee: Guarantee = Guarantee.EXACTLY_ONCE) -> None:
        self.kafka = FakeKafka()
        self.kafka.admin().create([TopicSpec(SINK, 1), TopicSpec(CHANGELOG, 2), TopicSpec(SOURCE, 1)], 1, 1.0)
        self.transactor = Transactor(self.kafka, "kc", "kc.count.count-0", "count-0", guarantee, self.kafka.clock)
        self.calls: list[str] = []
        self.kafka.on_call(lambda client, call: self.calls.append(call if client == "count-0" else f"{client}.{call}"))

    def fenced(self) -> Desk:
        self.transactor.fence(lambda: False)
        self.calls.clear()
        return self


def changes(partition: int = 0, entries: Sequence[tuple[bytes, bytes | None]] = ((b"\0\0k", b"1"),)) -> TaskChanges:
    return TaskChanges(CHANGELOG, partition, entries, Progress(1, {SOURCE: InputProgress(5, 5)}))


def test_changelog_progress_offsets_flush_and_commit_follow_the_outputs() -> None:
    desk = Desk().fenced()
    desk.transactor.outputs(inner=False).produce(SINK, 0, None, b"out")
    desk.transactor.commit([changes()], OFFSETS, GROUP)
    assert desk.calls == ["begin", "produce", "produce_batch", "produce", "send_offsets", "flush", "commit"]


def test_at_least_once_has_its_outputs_acknowledged_before_anything_is_recorded() -> None:
    desk = Desk(Guarantee.AT_LEAST_ONCE).fenced()
    desk.transactor.outputs(inner=False).produce(SINK, 0, None, b"out")
    desk.transactor.commit([changes()], OFFSETS, GROUP)
    assert desk.calls == [
        "begin",
        "count-0-outputs.produce",
        "count-0-outputs.flush",
        *("produce_batch", "produce", "send_offsets", "flush", "commit"),
    ]


def test_outputs_that_are_not_acknowledged_are_never_recorded_as_done() -> None:
    desk = Desk(Guarantee.AT_LEAST_ONCE).fenced()
    desk.kafka.fail_next("flush", ProducerLostError("no answer"), client="count-0-outputs")
    desk.transactor.outputs(inner=False).produce(SINK, 0, None, b"out")
    with pytest.raises(ProducerLostError):
        desk.transactor.commit([changes()], OFFSETS, GROUP)
    assert desk.kafka.entries(CHANGELOG, 0) == ()


def test_the_progress_record_is_the_last_of_its_partition_and_tells_its_offset() -> None:
    desk = Desk().fenced()
    first, second = changes(0, [(b"\0\0a", b"1"), (b"\0\0b", None)]), changes(1, [])
    desk.transactor.commit([first, second], {}, GROUP)
    records = [[entry for entry in desk.kafka.entries(CHANGELOG, number) if not entry.control] for number in (0, 1)]
    assert [entry.key for entry in records[0]] == [b"\0\0a", b"\0\0b", PROGRESS_KEY]
    assert [entry.key for entry in records[1]] == [PROGRESS_KEY]
    assert (first.progress_offset, second.progress_offset) == (2, 0)


def test_offsets_go_with_the_transaction_or_not_at_all() -> None:
    desk = Desk().fenced()
    desk.kafka.fail_next("commit", ProducerLostError("fenced"))
    with pytest.raises(ProducerLostError):
        desk.transactor.commit([changes()], OFFSETS, GROUP)
    assert desk.kafka.cluster.group_offsets == {}
    desk.fenced().transactor.commit([], OFFSETS, GROUP)
    assert desk.calls == ["begin", "send_offsets", "flush", "commit"]
    (committed,) = desk.kafka.cluster.group_offsets.values()
    assert (committed.offset, committed.metadata) == (5, "note")


def test_a_transaction_is_open_from_its_first_use_to_its_commit() -> None:
    desk = Desk().fenced()
    assert (desk.transactor.open, desk.transactor.open_s) == (False, 0.0)
    desk.transactor.begin()
    desk.kafka.clock.advance(1.5)
    desk.transactor.begin()
    assert (desk.transactor.open, desk.transactor.open_s) == (True, 1.5)
    desk.transactor.commit([], {}, GROUP)
    assert not desk.transactor.open


def test_a_transaction_before_the_fence_is_a_bug() -> None:
    with pytest.raises(TowpathError, match="before the fence"):
        Desk().transactor.begin()


def test_a_new_fence_means_a_new_instance_that_fences_the_former_owner() -> None:
    desk = Desk().fenced()
    former = desk.transactor
    former.outputs(inner=False).produce(SINK, 0, None, b"out")
    successor = Transactor(desk.kafka, "kc", "kc.count.count-0", "count-0", Guarantee.EXACTLY_ONCE, desk.kafka.clock)
    successor.fence(lambda: False)
    with pytest.raises(ProducerLostError):
        former.commit([], {}, GROUP)
    former.fence(lambda: False)
    former.commit([], OFFSETS, GROUP)


def no_broker(desk: Desk, times: int) -> None:
    for _ in range(times):
        desk.kafka.fail_next("init_transactions", RetryableKafkaError("no broker"))
    desk.kafka.on_call(lambda _, call: desk.kafka.clock.advance(INIT_STEP_S) if call == "init_transactions" else None)


def test_a_fence_is_tried_again_until_its_deadline() -> None:
    desk = Desk()
    no_broker(desk, 3)
    desk.transactor.fence(lambda: False)
    no_broker(desk, 100)
    before = desk.kafka.clock.monotonic_s()
    with pytest.raises(ProducerLostError, match="no broker"):
        desk.transactor.fence(lambda: False)
    assert desk.kafka.clock.monotonic_s() - before == INIT_TIMEOUT_S


def test_a_stop_request_ends_the_fence_after_one_try() -> None:
    desk = Desk()
    no_broker(desk, 100)
    with pytest.raises(StopRequestedError, match="while fencing"):
        desk.transactor.fence(lambda: True)
    assert desk.kafka.clock.monotonic_s() == INIT_STEP_S
