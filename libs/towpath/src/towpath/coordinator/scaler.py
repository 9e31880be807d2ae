"""Asks the platform for more or fewer replicas, as operators ask the coordinator: by a thread beside its turns."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol

import structlog

from statemgr.clock import Clock
from towpath.coordinator.coordinator import Coordinator
from towpath.coordinator.errors import NotLeadingError, PlatformError
from towpath.coordinator.facts import Facts
from towpath.coordinator.platform import NO_PLATFORM, Platform
from towpath.coordinator.resizing import Over, Request, Resize, decide_size, observe_request

log = structlog.get_logger()

IDLE_S = 5.0
"""Between two looks at the platform while nothing is asked: what ``kubectl scale`` has set is learnt so late at most.
Replicas that are taken away say so themselves, within a quarter of a second."""

BUSY_S = 0.5
"""The same while something is asked for: a request for each stage, beside a pod's start of some seconds."""

LOOK_S = 0.25
"""Between two looks whether something is asked for; asks nobody."""

STALE_S = 30.0
"""What the platform said is forgotten after this: when it can't be asked for so long, replicas count as they come."""


CLOSE_S = 1.0
"""For a request that is under way at the end; a slow one is of no matter any more."""


class Replicas(Protocol):
    """A platform that runs replicas."""

    def read(self, stage: str) -> int:
        """How many replicas of a stage it is to run.

        Raises:
            PlatformError: it does not answer in time, or refuses.
        """
        ...

    def write(self, stage: str, size: int, replicas: int) -> None:
        """Have it run ``replicas`` if it still is to run ``size``.

        Raises:
            PlatformError: it does not answer in time, or refuses; also when another number was set meanwhile.
        """
        ...


class Scaler:
    """Keeps the platform's numbers and the coordinator's requests together while that leads.

    Args:
        coordinator: decides who owns what.
        replicas: the platform.
        clock: time.

    Attributes:
        failure: an error that nobody foresaw and that ended the thread.
    """

    def __init__(self, coordinator: Coordinator, replicas: Replicas, clock: Clock) -> None:
        self.failure: Exception | None = None
        self._coordinator = coordinator
        self._replicas = replicas
        self._clock = clock
        self._read: dict[str, tuple[int, float]] = {}
        self._requests: dict[str, Request] = {}
        self._refused: dict[str, str] = {}
        self._said = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scaler", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """Begin nothing more; waits for a request that is under way, which ends by its own deadline."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_S)

    def turn(self) -> None:
        """Look at the platform, and do what follows from it."""
        if not self._coordinator.leading:
            self._coordinator.platform = NO_PLATFORM
            return
        self._coordinator.platform = self._look()
        with self._coordinator.look() as facts:
            decisions = self._decide(facts)
        for decision in decisions:
            self._carry_out(decision)

    def _run(self) -> None:
        try:
            turned_s = float("-inf")
            while True:
                rest_s = BUSY_S if self._is_asked() else IDLE_S
                if self._clock.monotonic_s() - turned_s >= rest_s:
                    self.turn()
                    turned_s = self._clock.monotonic_s()
                if self._over.wait(LOOK_S):
                    return
        except Exception as error:  # noqa: BLE001 - raised again in the coordinator's loop
            self.failure = error

    def _is_asked(self) -> bool:
        with self._coordinator.look() as facts:
            return any(facts.asked(stage) is not None for stage in facts.stages)

    def _look(self) -> Platform:
        problems = []
        for stage in self._coordinator.stages:
            try:
                size = self._replicas.read(stage)
            except PlatformError as error:
                problems.append(str(error))
            else:
                self._read[stage] = size, self._clock.monotonic_s()
        now_s = self._clock.monotonic_s()
        sizes = {stage: size for stage, (size, at_s) in self._read.items() if now_s - at_s < STALE_S}
        return Platform(sizes, self._say([*problems, *self._refused.values()]))

    def _say(self, problems: Sequence[str]) -> str:
        """Log what has changed; gives all in one line."""
        problem = "; ".join(dict.fromkeys(problems))
        if problem and problem != self._said:
            log.warning("replicas can't be asked for, tried again", cause=problem)
        elif self._said and not problem:
            log.info("replicas can be asked for again")
        self._said = problem
        return problem

    def _decide(self, facts: Facts) -> list[Resize | Over]:
        found = {stage: observe_request(facts, stage, self._requests.get(stage)) for stage in facts.stages}
        self._requests = {stage: request for stage, request in found.items() if request is not None}
        self._refused = {stage: why for stage, why in self._refused.items() if stage in self._requests}
        decisions = (decide_size(facts, stage, request) for stage, request in self._requests.items())
        return [decision for decision in decisions if decision is not None]

    def _carry_out(self, decision: Resize | Over) -> None:
        match decision:
            case Resize(stage, size, replicas):
                try:
                    self._replicas.write(stage, size, replicas)
                except PlatformError as error:
                    self._refused[stage] = str(error)
                else:
                    self._refused.pop(stage, None)
                    log.info("replicas asked for", stage=stage, before=size, replicas=replicas)
            case Over(stage, replicas, done):
                try:
                    self._coordinator.forget_asked(stage, replicas)
                except NotLeadingError as error:
                    log.info("what was asked for is kept for now", stage=stage, cause=str(error))
                    return
                if not done:
                    log.warning("another number of replicas was set meanwhile, and holds", stage=stage, asked=replicas)
