"""One round: an application with many keys, whose workers become two, one, two again, and lose one to ``kill -9``."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.faust_tables.figures import as_figures, move, rate
from tests.harness.faust_tables.feed import Feed, create_topics
from tests.harness.faust_tables.journal import ASSIGNED, RECOVERED, Lines, Verdict, judge
from tests.harness.faust_tables.oracle import counts_are
from tests.harness.faust_tables.workers import Application, Worker, describe
from tests.harness.waiting import wait_for

START_LIMIT_S = 600.0
"""A million keys are recovered by a stock worker within a minute or two on a small machine."""

EVENTS_LIMIT_S = 120.0
"""For events of all partitions once a worker is ready."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Variant:
    """A store, and an interpreter whose packages have it."""

    name: str
    store: str
    python: str


@dataclass(frozen=True)
class Settings:
    """Of a round.

    Attributes:
        keys: in the table.
        partitions: of source and table.
        rate: events a second while workers come and go.
        backlog: events that one worker processes as fast as it can.
        steady_s: before and after each change.
        session_timeout_s: after which Kafka misses a killed worker; Faust's default is 60.
        standbys: Faust's ``table_standby_replicas``.
    """

    keys: int
    partitions: int = 8
    rate: int = 300
    backlog: int = 15_000
    steady_s: float = 8.0
    session_timeout_s: float = 10.0
    standbys: int = 0


def measure(variant: Variant, settings: Settings, bootstrap: str, directory: Path, say: Say) -> dict[str, Any]:
    """The figures of a round."""
    name = f"bench-{variant.name}-{uuid.uuid4().hex[:6]}"
    with ExitStack() as stack:
        round_ = _Round(name, variant, settings, bootstrap, directory / name, say)
        stack.callback(round_.close)
        return round_.run()


class _Round:
    def __init__(
        self, name: str, variant: Variant, settings: Settings, bootstrap: str, directory: Path, say: Say
    ) -> None:
        self._settings = settings
        self._bootstrap = bootstrap
        self._say = lambda text: say(f"{variant.name}, {settings.keys:,} keys: {text}")
        self._variant = variant
        self._changelog = f"{name}-counts-changelog"
        source = f"{name}-events"
        create_topics(bootstrap, settings.partitions, source, changelog=self._changelog)
        self._feed = Feed(bootstrap, source, keys=settings.keys, partitions=settings.partitions)
        application = Application(
            name,
            bootstrap,
            source,
            partitions=settings.partitions,
            standbys=settings.standbys,
            session_timeout_s=settings.session_timeout_s,
        )
        self._a, self._b = (Worker(application, directory / each, variant.store, variant.python) for each in ("a", "b"))
        self._workers: Sequence[Worker] = (self._a, self._b)
        self._since = 0.0

    def run(self) -> dict[str, Any]:
        """See :func:`measure`."""
        figures: dict[str, Any] = {}
        self._say("loading the changelog, starting a worker")
        self._feed.preload(self._changelog)
        self._a.start()
        figures["first_recovery_s"] = self._await_recovery()
        self._say("draining a backlog")
        figures["events_per_s"] = self._drain()
        self._feed.start(self._settings.rate)
        self._settle()
        self._say("1 → 2 workers")
        figures["one_to_two"] = self._moved(self._b.start, lambda: self._has_some(self._b))
        figures["all_state_s"] = self._await_all_state(self._b)
        figures["newcomer"] = self._of(self._b)
        self._say("2 → 1 workers")
        figures["two_to_one"] = self._moved(self._b.terminate, lambda: self._has_all(self._a))
        self._b.await_end()
        self._await_all_state(self._a)
        self._settle()
        self._say("2 workers again, kill -9 of the first")
        self._moved(self._b.start, lambda: self._has_some(self._b))
        self._await_all_state(self._b)
        self._settle()
        figures["kill_9"] = self._moved(self._a.kill, lambda: self._has_all(self._b))
        self._await_all_state(self._b)
        self._feed.stop()
        figures["survivor"] = self._of(self._b)
        figures["judged"] = self._judge()
        self._say(json.dumps(figures))
        return figures

    def close(self) -> None:
        """Leave no process behind."""
        self._feed.stop()
        for worker in self._workers:
            worker.close()

    def _await_recovery(self) -> float:
        def recovered() -> bool:
            return RECOVERED in self._a.journal()["what"].tolist()

        def all_partitions() -> bool:
            self._feed.send_keys(range(self._settings.partitions))
            return self._has_all(self._a)

        wait_for("the recovery", recovered, START_LIMIT_S, describe(self._workers))
        wait_for("the first events", all_partitions, EVENTS_LIMIT_S, describe(self._workers))
        lines = self._a.journal()
        assigned = lines["time"][lines["what"] == ASSIGNED].max()
        return round(float(lines["time"][lines["what"] == RECOVERED].max() - assigned), 3)

    def _drain(self) -> float:
        before = len(self._a.events())
        self._feed.send(self._settings.backlog)
        done = before + self._settings.backlog
        wait_for("the backlog", lambda: len(self._a.events()) >= done, START_LIMIT_S, describe(self._workers))
        return rate(self._a.events()[before:])

    def _moved(self, change: Callable[[], None], over: Callable[[], bool]) -> dict[str, Any]:
        """A change of workers, until all partitions have events, and some time after."""
        begin = time.time()
        self._since = begin
        change()
        wait_for("events of all partitions", over, START_LIMIT_S, describe(self._workers))
        self._settle()
        return as_figures(move(self._journals(), begin - 1.0, time.time()))

    def _settle(self) -> None:
        time.sleep(self._settings.steady_s)

    def _has_some(self, newcomer: Worker) -> bool:
        """Whether a newcomer has events, and all partitions have."""
        lines = self._recent(newcomer)
        others = [self._recent(each) for each in self._workers if each is not newcomer]
        here = set(lines["partition"].tolist())
        first = lines["time"].min() if len(lines) else float("inf")
        elsewhere = {each for other in others for each in other["partition"][other["time"] > first].tolist()}
        return bool(here) and len(here | elsewhere) == self._settings.partitions

    def _has_all(self, worker: Worker) -> bool:
        return len(set(self._recent(worker)["partition"].tolist())) == self._settings.partitions

    def _recent(self, worker: Worker) -> Lines:
        events = worker.events()
        return events[events["time"] >= self._since]

    def _await_all_state(self, worker: Worker) -> float | None:
        """Until a worker needs no other's copy any more; the stock store has all before it begins."""
        if not self._variant.store.startswith("statemgr"):
            return None
        began = float(self._recent(worker)["time"].min())
        wait_for("all state", worker.has_all_state, START_LIMIT_S, describe(self._workers))
        return round(time.time() - began, 1)

    def _of(self, worker: Worker) -> dict[str, Any]:
        said = worker.report()
        found = {name: said.get(name) for name in ("loop_delay_p99_ms", "loop_delay_max_ms")}
        found["rss_mib"] = round(said.get("rss_bytes", 0) / (1 << 20))
        driver = said.get("driver") or {}
        found |= {name: driver.get(name) for name in ("waits", "waits_s", "longest_wait_s")}
        return found

    def _journals(self) -> dict[str, Lines]:
        return {each.name: each.journal() for each in self._workers}

    def _judge(self) -> dict[str, Any]:
        """Lost and doubled events, and whether the table is what it must be."""

        def verdict_now() -> Verdict:
            return judge(list(self._journals().values()), self._feed.ends)

        wait_for("all events", lambda: verdict_now().lost == 0, START_LIMIT_S, lambda: str(verdict_now()))
        self._b.stop()
        verdict = verdict_now()
        return {
            "processed": verdict.processed,
            "lost": verdict.lost,
            "lacking": verdict.lacking,
            "again": verdict.again,
            "state_is_oracle": counts_are(self._feed.counts, self._bootstrap, self._changelog),
        }
