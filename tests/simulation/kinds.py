"""What can happen to a cluster."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """What can happen."""

    KILL = "kill"
    """SIGKILL of a replica before its n-th next Kafka call; its supervisor starts it again."""

    KILL_EARLY = "kill early"
    """The same, and once more within its first calls, before or after its init."""

    STOP = "stop"
    """SIGSTOP of a replica, SIGCONT later: a zombie if it was taken for dead meanwhile."""

    STOP_IN_CALL = "stop in call"
    """SIGSTOP within the n-th next Kafka call, perhaps with an open transaction that hides all behind it."""

    LOSE_STORES = "lose stores"
    """A replica is killed and its disk is empty when it starts again."""

    SCALE = "scale"
    """Another number of replicas, perhaps during the scale before, perhaps in another manner."""

    MOVE = "move"
    """One task is moved by hand."""

    DRAIN = "drain"
    """SIGTERM: a replica asks to be drained, leaves, and is started again."""

    HOLDER_KILL = "holder kill"
    """SIGKILL of a state manager; started again."""

    HOLDER_STOP = "holder stop"
    """SIGSTOP of a state manager, SIGCONT later."""

    HOLDER_CUT = "holder cut"
    """No message reaches a state manager for a while."""

    HOLDER_LOST = "holder lost"
    """A machine burns down: replica, state manager and disk are gone for good."""

    COPY_LOST = "copy lost"
    """One store directory of a machine vanishes while nobody has it open."""

    COORDINATOR_KILL = "coordinator kill"
    """SIGKILL of the coordinator before its n-th next Kafka call; started again."""

    COORDINATOR_STOP = "coordinator stop"
    """SIGSTOP of the coordinator, SIGCONT later."""

    COORDINATOR_TWICE = "coordinator twice"
    """The coordinator is stopped, another takes over, the first wakes up."""

    CLOCK = "clock"
    """A process's wall clock jumps."""

    COMPACT = "compact"
    """Changelog and control log are compacted."""

    UNKNOWN_OUTCOME = "unknown outcome"
    """A commit has no definite answer, and has or has not taken effect."""

    CALL_FAILS = "call fails"
    """A Kafka call of a replica has no answer before its deadline."""

    TAIL_LOST = "tail lost"
    """The broker loses the uncommitted tail of a changelog partition."""

    SLOW_DISK = "slow disk"
    """Writes of a replica take long for a while."""

    NIGHT = "night"
    """The whole machine sleeps for a minute; then tombstones leave the logs."""

    READ = "read"
    """Somebody reads live state."""

    TOPICS_ANEW = "topics anew"
    """Everything is stopped, input, output and changelog are made anew, and all starts again with empty state."""

    BROKER_AWAY = "broker away"
    """Nobody gets an answer of the broker for some seconds; then it is back with its data."""

    DISK_FULL = "disk full"
    """Every write to a machine's stores fails for a while; whoever ends by it is started again."""


WEIGHTS: dict[Kind, float] = {
    Kind.KILL: 6,
    Kind.KILL_EARLY: 2,
    Kind.STOP: 3,
    Kind.STOP_IN_CALL: 3,
    Kind.LOSE_STORES: 1,
    Kind.SCALE: 8,
    Kind.MOVE: 10,
    Kind.DRAIN: 2,
    Kind.HOLDER_KILL: 2,
    Kind.HOLDER_STOP: 1.5,
    Kind.HOLDER_CUT: 1,
    Kind.HOLDER_LOST: 1,
    Kind.COPY_LOST: 1,
    Kind.COORDINATOR_KILL: 2,
    Kind.COORDINATOR_STOP: 1,
    Kind.COORDINATOR_TWICE: 1.5,
    Kind.CLOCK: 1,
    Kind.COMPACT: 3,
    Kind.UNKNOWN_OUTCOME: 2,
    Kind.CALL_FAILS: 2,
    Kind.TAIL_LOST: 0.5,
    Kind.SLOW_DISK: 1,
    Kind.NIGHT: 0.8,
    Kind.READ: 3,
    Kind.TOPICS_ANEW: 0.4,
}
"""How often each kind is chosen, in proportion."""

FURTHER: dict[Kind, float] = {
    Kind.BROKER_AWAY: 0.15,
    Kind.DISK_FULL: 0.15,
}
"""Kinds with the probability that a run has one of them, beside what is chosen by weight.

They are drawn apart from all others, so that schedules by which a fault is known to be found stay as they are.
"""

PLANNED = frozenset({Kind.SCALE, Kind.MOVE, Kind.READ, Kind.COMPACT})
"""Kinds that no replica needs to lose anything by."""
