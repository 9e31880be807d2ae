"""Pure decisions about recovery: facts in, a named decision out, no input or output.

Offsets: a store's X is inclusive (complete up to and including X), so the next record it needs is X + 1; a log's
start is the first offset it still has, its end the next that will be written. A transaction's commit marker takes an
offset too, so X + 1 is usually a marker, and a store that has everything may stand one or two below the end.

::

    facts                                          decision
    bounds of the log unknown or impossible        Wait
    no store, log holds no offset                  Fresh
    no store                                       RestoreFully
    store of another topic id                      RestoreFully
    store of a later epoch                         RestoreFully
    X + 1 < log start (records between are gone)   RestoreFully
    X + 1 > log end, heard for the first time      Wait
    X + 1 > log end, confirmed (the log lost it)   RestoreFully
    last commit too old, or in the future          RestoreFully
    else                                           UseBase from X + 1
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from statemgr.errors import TopicMismatchError
from statemgr.kafka.ports import Bounds, TopicInfo
from statemgr.store.base import StoreMeta

DELETE_RETENTION_CONFIG = "delete.retention.ms"
CLEANUP_POLICY_CONFIG = "cleanup.policy"

DEFAULT_DELETE_RETENTION_MS = 86_400_000
"""Kafka's default: tombstones stay readable for 24 hours after the compaction that could drop them."""

MIN_DELETE_RETENTION_MS = 60_000
"""A changelog that drops tombstones sooner is refused: an owner may be silent for a transaction time-out (10 s) and
detection and fence (10 s) before another reads on, and half of the retention must hold that, with room."""

CLOCK_TOLERANCE_MS = 60_000
"""How far in the future a commit may seem to be: clocks are set back by seconds, not by minutes."""


@dataclass(frozen=True)
class LogFacts:
    """What is known of a task's changelog partition.

    Attributes:
        topic_id: id of the topic as it exists now.
        bounds: log start and end; None while they are unknown.
        delete_retention_ms: how long tombstones stay readable.
        confirmed: the bounds stayed what they are over a while. A broker that has just become leader may report an
            end below the true one, and a store ahead of such an end must not be wiped.
    """

    topic_id: str
    bounds: Bounds | None
    delete_retention_ms: int = DEFAULT_DELETE_RETENTION_MS
    confirmed: bool = False

    def known_bounds(self) -> Bounds | None:
        """The bounds, or None where they are unknown: not told, negative, or start beyond end."""
        if self.bounds is None or not 0 <= self.bounds.start <= self.bounds.end:
            return None
        return self.bounds


@dataclass(frozen=True)
class UseBase:
    """The store is a valid base; read the changelog from here."""

    from_offset: int


@dataclass(frozen=True)
class RestoreFully:
    """There is no valid base; read the whole changelog into a new store."""

    reason: str


@dataclass(frozen=True)
class Wait:
    """Nothing can be decided yet, and nothing may be deleted."""

    reason: str


@dataclass(frozen=True)
class Fresh:
    """There is neither store nor changelog: the task begins."""


BaseDecision = UseBase | RestoreFully | Wait | Fresh


def decide_base(meta: StoreMeta | None, log: LogFacts, epoch: int, now_ms: int) -> BaseDecision:
    """Whether a store is a valid base for the owner of ``epoch`` (R12).

    Args:
        meta: the store's meta record; None if there is no store or nothing was ever written to it.
        log: the task's changelog partition.
        epoch: the new owner's epoch.
        now_ms: wall clock in ms since the Unix epoch.
    """
    bounds = log.known_bounds()
    if bounds is None:
        return Wait(f"log start and end of the changelog are unknown (heard: {log.bounds})")
    if meta is None:
        return Fresh() if bounds.start == bounds.end else RestoreFully("there is no local store")
    reason = _foreign(meta, log, epoch)
    if reason:
        return RestoreFully(reason)
    if meta.offset + 1 > bounds.end:
        reason = f"the log ends at {bounds.end}, the store is ahead of it at {meta.offset}"
        return RestoreFully(reason) if log.confirmed else Wait(reason)
    reason = _outdated(meta, log, bounds, now_ms)
    return RestoreFully(reason) if reason else UseBase(meta.offset + 1)


def _foreign(meta: StoreMeta, log: LogFacts, epoch: int) -> str | None:
    """Why a store belongs to another history; None if it does not."""
    if meta.topic_id != log.topic_id:
        return f"the changelog topic was made anew (id {log.topic_id}, the store knows {meta.topic_id})"
    if meta.epoch > epoch:
        return f"the store was written by the later epoch {meta.epoch}, ours is {epoch}"
    return None


def _outdated(meta: StoreMeta, log: LogFacts, bounds: Bounds, now_ms: int) -> str | None:
    """Why the log may lack something between the store and its end; None if it lacks nothing."""
    if meta.offset + 1 < bounds.start:
        return f"the log starts at {bounds.start}, the store is complete only up to {meta.offset}"
    age_ms = now_ms - meta.committed_at_ms
    if age_ms < -CLOCK_TOLERANCE_MS:
        return f"the store's last commit lies {-age_ms} ms in the future, so its age is unknown"
    limit_ms = base_age_limit_ms(log.delete_retention_ms)
    if age_ms >= limit_ms:
        return f"the store's last commit is {age_ms} ms old, tombstones are certain for {limit_ms} ms only"
    return None


def base_age_limit_ms(delete_retention_ms: int) -> int:
    """Age from which deletes may have left the log unseen by a base: half of the retention, for clocks and restore."""
    return delete_retention_ms // 2


def delete_retention_ms(config: Mapping[str, str]) -> int:
    """Tombstone retention from a topic's effective settings; Kafka's default where it is not reported."""
    return int(config.get(DELETE_RETENTION_CONFIG, DEFAULT_DELETE_RETENTION_MS))


def check_changelog_topic(info: TopicInfo, partitions: int) -> None:
    """Refuse a changelog topic whose settings would lose state.

    Args:
        info: the topic as it exists.
        partitions: number of tasks of the stage.

    Raises:
        TopicMismatchError: another partition count, a policy other than exactly ``compact``, or too short a tombstone
            retention; the message has both values and the remedy.
    """
    if info.partitions != partitions:
        raise TopicMismatchError(
            f"changelog topic {info.name!r} has {info.partitions} partitions, the stage has {partitions} tasks; "
            f"keys would meet the wrong state. Run the stage with {info.partitions} input partitions, or, to start "
            f"with empty state, delete the topic: kafka-topics.sh --delete --topic {info.name}"
        )
    policy = info.config.get(CLEANUP_POLICY_CONFIG, "delete")
    if policy.replace(" ", "") != "compact":
        raise TopicMismatchError(
            f"changelog topic {info.name!r} has {CLEANUP_POLICY_CONFIG}={policy}, expected exactly compact, because "
            f"any other policy deletes state. {_alter(info.name, CLEANUP_POLICY_CONFIG, 'compact')}"
        )
    retention = delete_retention_ms(info.config)
    if retention < MIN_DELETE_RETENTION_MS:
        raise TopicMismatchError(
            f"changelog topic {info.name!r} has {DELETE_RETENTION_CONFIG}={retention}, expected at least "
            f"{MIN_DELETE_RETENTION_MS}, because deletes would be missed after a pause. "
            f"{_alter(info.name, DELETE_RETENTION_CONFIG, str(DEFAULT_DELETE_RETENTION_MS))}"
        )


def _alter(topic: str, key: str, value: str) -> str:
    return f"Set it: kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config {key}={value}"


def explain(decision: BaseDecision) -> str:
    """A decision in words, for logs."""
    match decision:
        case UseBase(from_offset):
            return f"local store is a valid base; reading the changelog from {from_offset}"
        case RestoreFully(reason):
            return f"full restore: {reason}"
        case Wait(reason):
            return f"waiting: {reason}"
        case Fresh():
            return "new task: neither local store nor changelog"
        case _:
            assert_never(decision)
