"""Every deadline of the coordinator, with its arithmetic."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Deadlines in seconds, all by the coordinator's monotonic clock.

    Attributes:
        silence_s: a replica that was heard before is gone after this silence: twelve heartbeats of 250 ms.
        absent_s: a replica that the log knows and that was not heard since the coordinator's start is gone after
            this: a replica loads its runtime in 2 s, several at once on two cores in 6 s.
        gather_s: after a replica has joined, others of the same start are waited for before tasks are planned, so
            that three replicas that start together get a third each at once.
        prepare_timeout_s: a move is committed this long after its hint, ready or not: opening a store and a secondary
            takes 0.3 s, on a busy machine some times that.
        copy_timeout_s: the same where the state is copied before the move: 30 GB at 100 MB/s.
        drain_copy_s: the same where the former owner wants to leave: a quarter of the 120 s that it is given.
        release_timeout_s: a former owner that has not released a task by then is fenced (R5): the transaction
            time-out, after which its transaction is aborted anyway.
        pause_s: a longer gap between two turns is no part of anybody's silence (R19): twenty turns at rest, a hundred
            while something moves.
        alert_s: for how long an alerted replica watches the log closely; renewed by every answer, so four heartbeats.
        told_s: a former owner that has not fetched its alert by then releases without: two heartbeats.
        standby_s: a coordinator that lost its producer tries to lead again after this, if no newer one has shown up.
        reclaim_s: the same where a newer one has shown up, and replicas still talk to this one.
        forget_s: what a replica or state manager said last is dropped after this silence; of an owner the log is left.
        fence_retry_s: pause before a fence that was not done in time is tried again.
    """

    silence_s: float = 3.0
    absent_s: float = 10.0
    gather_s: float = 1.0
    prepare_timeout_s: float = 5.0
    copy_timeout_s: float = 300.0
    drain_copy_s: float = 30.0
    release_timeout_s: float = 10.0
    pause_s: float = 1.0
    alert_s: float = 1.0
    told_s: float = 0.5
    standby_s: float = 3.0
    reclaim_s: float = 30.0
    forget_s: float = 60.0
    fence_retry_s: float = 1.0
