"""A query under a stage driver that pipes rows of two partitions while replicas crash, restart or change in number."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from towpath.query import Query
from towpath.testing import StageDriver

PARTITIONS = 2


class Harmed:
    """Drives a query whose source is the topic ``in`` through what a harm means; the same for the same seed."""

    def __init__(self, query: Query, harm: str, seed: int, replicas: Mapping[str, int], **settings: Any) -> None:
        self.driver = StageDriver(query, partitions={"in": PARTITIONS}, replicas=replicas, **settings)
        self._harm = harm
        self._chance = random.Random(seed)
        self._stages = list(replicas)
        self.driver.run_until_idle()

    def pipe_all(self, rows: Sequence[Sequence[Mapping[str, Any]]]) -> None:
        """Pipe the rows of each partition in pieces, and do harm between these."""
        done = [0] * PARTITIONS
        while any(done[part] < len(rows[part]) for part in range(PARTITIONS)):
            part = done.index(min(done)) if self._chance.random() < 0.7 else self._chance.randrange(PARTITIONS)
            end_ = min(len(rows[part]), done[part] + self._chance.randrange(1, 40))
            self.driver.pipe("in", rows[part][done[part] : end_], partition=part)
            done[part] = end_
            for _ in range(self._chance.randrange(4)):
                self.driver.run_once()
            self.driver.advance_time(self._chance.randrange(200))
            if self._chance.random() < 0.3:
                self._strike(self._chance.choice(self._stages))

    def _strike(self, stage: str) -> None:
        match self._harm:
            case "crash":
                self.driver.crash(stage)
            case "crash, stores lost":
                self.driver.crash(stage, lose_stores=True)
            case "restart":
                self.driver.restart(stage)
            case "scale":
                self.driver.scale(self._stages[-1], self._chance.randrange(1, 4))


def settle(driver: StageDriver) -> None:
    """Let watermarks go through all stages."""
    for _ in range(4):
        driver.run_until_idle()
        driver.advance_time(150)
    driver.run_until_idle()


def end(driver: StageDriver, row: Mapping[str, Any]) -> None:
    """Bring event time to that of a last row, in every partition."""
    for part in range(PARTITIONS):
        driver.pipe("in", [row], partition=part)
    settle(driver)
