"""When the platform is to run another number of replicas: pure, from the facts.

A platform holds the number of replicas of a stage, and others change it, too: ``kubectl scale``, an autoscaler. So the
number in the control log is only what was asked of the *coordinator* and has not been done yet::

    nothing asked ──/scale──▶ asked ──▶ more: the platform is told at once
         ▲                      │   ──▶ fewer: the platform is told when it would take away nothing that is needed
         └──────────────────────┘
          the platform runs as many, or another number was set there meanwhile: whoever spoke last has his way
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from towpath.coordinator.facts import Facts
from towpath.coordinator.platform import ordinal


@dataclass(frozen=True)
class Request:
    """What was asked for, as it was first seen.

    Attributes:
        replicas: how many were asked for.
        size: how many the platform was to run then.
        since_s: monotonic time of that moment.
    """

    replicas: int
    size: int
    since_s: float


@dataclass(frozen=True)
class Resize:
    """Tell the platform to run ``replicas`` of a stage, if it still is to run ``size``."""

    stage: str
    size: int
    replicas: int


@dataclass(frozen=True)
class Over:
    """Nothing is asked for any more; ``done``: as many run as were asked for, else another number was set."""

    stage: str
    replicas: int
    done: bool


def observe_request(facts: Facts, stage: str, former: Request | None) -> Request | None:
    """What is asked for now; None: nothing, or the platform has not said how many it runs."""
    asked, size = facts.asked(stage), facts.platform.sizes.get(stage)
    if asked is None or size is None:
        return None
    return former if former is not None and former.replicas == asked else Request(asked, size, facts.now_s)


def decide_size(facts: Facts, stage: str, request: Request) -> Resize | Over | None:
    """What to do about a request; None: nothing yet.

    Who would be taken away is asked for its tasks first, and for copies of state that others still need as long as a
    copy may take: so moves are bound to no grace period. It is never taken away with tasks: where nobody else is there,
    the request waits, and ``waiting_for`` says so.
    """
    size = facts.platform.sizes.get(stage)
    if size is None:
        return None
    if size in (request.replicas, request.size):
        if size == request.replicas:
            return Over(stage, request.replicas, done=True)
        if size < request.replicas or not _is_needed(facts, stage, request):
            return Resize(stage, size, request.replicas)
        return None
    return Over(stage, request.replicas, done=False)


def _is_needed(facts: Facts, stage: str, request: Request) -> bool:
    """Whether one of the replicas that would be taken away still owns tasks, or holds state that others need."""

    def leaves(replica: str) -> bool:
        number = ordinal(replica)
        return number is not None and number >= request.replicas

    at_work = {*facts.owners(stage).values(), *(tenure.owner for _, tenure in facts.unended(stage))}
    if any(leaves(replica) for replica in at_work):
        return True
    patient = facts.now_s - request.since_s < facts.limits.copy_timeout_s
    return patient and any(leaves(holder) for holder in _holders(facts, stage))


def _holders(facts: Facts, stage: str) -> Iterator[str]:
    """Replicas whose copies the owners of a stage's tasks still need."""
    for task in facts.stages[stage].tasks:
        known = facts.view.of(task)
        if known.assigned is not None and not known.complete:
            yield from (layer.holder for layer in known.assigned.layers)
