"""When a store is a base (R12), and which changelog topics are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemgr.decisions import (
    CLOCK_TOLERANCE_MS,
    MIN_DELETE_RETENTION_MS,
    Fresh,
    LogFacts,
    RestoreFully,
    UseBase,
    Wait,
    check_changelog_topic,
    decide_base,
    delete_retention_ms,
    explain,
)
from statemgr.errors import TopicMismatchError
from statemgr.kafka.ports import Bounds, TopicInfo
from statemgr.store import StoreMeta

NOW = 1_000_000_000
DAY = 86_400_000


def meta(offset=10, *, topic_id="T", age=0, epoch=3):
    return StoreMeta(topic_id, offset, NOW - age, epoch, None)


def facts(start=0, end=20, **more):
    return LogFacts("T", Bounds(start, end), DAY, **more)


def kind_of(store_meta, log, epoch=3):
    return type(decide_base(store_meta, log, epoch, NOW))


@pytest.mark.parametrize("store", [None, meta(), meta(-1)])
@pytest.mark.parametrize("bounds", [None, Bounds(-1, -1), Bounds(0, -1001), Bounds(-1, 5), Bounds(7, 3)])
def test_unknown_or_impossible_bounds_mean_wait_never_wipe(store, bounds):
    assert kind_of(store, LogFacts("T", bounds, DAY, confirmed=True)) is Wait


@pytest.mark.parametrize(
    ("start", "end", "offset", "expected"),
    [
        # the log never held anything
        (0, 0, None, Fresh()),
        (0, 0, -1, UseBase(0)),
        # exactly one record, exactly two
        (0, 1, None, RestoreFully),
        (0, 1, -1, UseBase(0)),
        (0, 1, 0, UseBase(1)),
        (0, 2, 0, UseBase(1)),
        (0, 2, 1, UseBase(2)),
        # X is inclusive: the next record wanted is X + 1
        (0, 20, 10, UseBase(11)),
        (0, 20, 19, UseBase(20)),
        (11, 20, 10, UseBase(11)),
        (12, 20, 10, RestoreFully),
        # the commit marker behind X is all that follows
        (0, 12, 10, UseBase(11)),
        # everything was deleted, the store still has it
        (20, 20, 19, UseBase(20)),
        (20, 20, 10, RestoreFully),
        (20, 20, None, Fresh()),
        # an empty store, the beginning of the log gone
        (5, 20, -1, RestoreFully),
        # the log is shorter than the store: believed only when confirmed
        (0, 10, 10, Wait),
        (0, 0, 10, Wait),
        (0, 11, 10, UseBase(11)),
    ],
)
def test_offsets(start, end, offset, expected):
    decision = decide_base(None if offset is None else meta(offset), facts(start, end), 3, NOW)
    if isinstance(expected, type):
        assert isinstance(decision, expected)
    else:
        assert decision == expected


@pytest.mark.parametrize("end", [0, 10])
def test_a_log_that_stays_shorter_than_the_store_means_full_restore(end):
    assert kind_of(meta(10), facts(0, end, confirmed=True)) is RestoreFully


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        (meta(topic_id="other"), RestoreFully),
        (meta(topic_id="other", offset=500), RestoreFully),  # made anew and shorter: no reason to wait
        (meta(epoch=2), UseBase),
        (meta(epoch=3), UseBase),
        (meta(epoch=4), RestoreFully),
        (meta(age=DAY // 2 - 1), UseBase),
        (meta(age=DAY // 2), RestoreFully),
        (meta(age=-CLOCK_TOLERANCE_MS), UseBase),
        (meta(age=-CLOCK_TOLERANCE_MS - 1), RestoreFully),
    ],
)
def test_topic_epoch_and_age(store, expected):
    assert kind_of(store, facts()) is expected


@given(st.integers(-1, 30), st.integers(0, 30), st.integers(0, 30), st.booleans())
def test_a_base_never_leaves_a_hole(offset, start, size, confirmed):
    decision = decide_base(meta(offset), facts(start, start + size, confirmed=confirmed), 3, NOW)
    if isinstance(decision, UseBase):
        assert start <= decision.from_offset == offset + 1 <= start + size


@pytest.mark.parametrize("decision", [UseBase(3), RestoreFully("because"), Wait("because"), Fresh()])
def test_every_decision_explains_itself(decision):
    assert explain(decision)


def topic(partitions=4, **config):
    settings = {"cleanup.policy": "compact", "delete.retention.ms": str(DAY)} | config
    return TopicInfo("app.count.changelog", partitions, "T", settings)


def test_a_compacted_topic_with_the_right_partitions_is_accepted():
    check_changelog_topic(topic(), 4)


def test_another_partition_count_is_refused_with_both_numbers_and_the_remedy():
    with pytest.raises(TopicMismatchError, match=r"has 4 partitions, the stage has 8 tasks.*--delete --topic"):
        check_changelog_topic(topic(), 8)


@pytest.mark.parametrize("policy", ["delete", "compact,delete", "delete, compact", ""])
def test_any_policy_but_exactly_compact_is_refused_with_the_command(policy):
    with pytest.raises(TopicMismatchError, match=r"exactly compact.*kafka-configs.*cleanup\.policy=compact"):
        check_changelog_topic(topic(**{"cleanup.policy": policy}), 4)


def test_tombstones_that_vanish_within_a_pause_are_refused():
    with pytest.raises(TopicMismatchError, match=r"delete\.retention\.ms=59999"):
        check_changelog_topic(topic(**{"delete.retention.ms": str(MIN_DELETE_RETENTION_MS - 1)}), 4)


def test_unreported_retention_is_kafkas_default():
    assert delete_retention_ms({}) == DAY
