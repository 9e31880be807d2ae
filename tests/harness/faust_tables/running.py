"""An application with its feed and workers, for the length of a test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.harness.faust_tables.feed import Feed, create_topics
from tests.harness.faust_tables.journal import Verdict, judge
from tests.harness.faust_tables.workers import Application, Worker, describe
from tests.harness.waiting import wait_for

LIMIT_S = 60.0
OURS = "statemgr://"
STOCK = "rocksdb://"


class Running:
    """See the module.

    Args:
        bootstrap: Kafka.
        directory: for the workers.
        kind: of the program.
        keys: of the feed.
        preload: whether the changelog has all keys once beforehand.
        environment: variables of the workers beside this process's.
        options: further fields of :class:`tests.harness.faust_tables.workers.Application`.
    """

    def __init__(
        self,
        bootstrap: str,
        directory: Path,
        kind: str = "count",
        *,
        keys: int = 500,
        preload: bool = False,
        environment: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        name = f"faust-{kind}-{uuid.uuid4().hex[:8]}"
        table = {"count": "counts", "windows": "windows", "sets": "sets"}[kind]
        self.changelog = f"{name}-{table}-changelog"
        self.application = Application(name, bootstrap, f"{name}-events", kind=kind, **options)
        partitions = self.application.partitions
        create_topics(bootstrap, partitions, self.application.source, changelog=self.changelog if preload else "")
        self.feed = Feed(bootstrap, self.application.source, keys=keys, partitions=partitions)
        if preload:
            self.feed.preload(self.changelog)
        self.workers: list[Worker] = []
        self._directory = directory
        self._environment = environment or {}

    def worker(self, name: str, store: str = OURS, *, under: bool = False) -> Worker:
        """A worker of this application, not started yet; the same name means the same directory."""
        found = next((each for each in self.workers if each.name == name and each.store == store), None)
        if found is None:
            directory = self._directory / name
            found = Worker(self.application, directory, store, environment=self._environment, under=under)
            self.workers.append(found)
        return found

    def await_all(self, worker: Worker) -> None:
        """Have events in all partitions until a worker has seen one of each."""
        before = len(worker.journal())

        def all_partitions() -> bool:
            assert worker.running, worker.log()
            self.feed.send_keys(range(self.application.partitions))
            lines = worker.journal()[before:]
            return len(set(lines["partition"][lines["what"] == 0].tolist())) == self.application.partitions

        wait_for(f"{worker.name} has all partitions", all_partitions, LIMIT_S, describe(self.workers))

    def await_some(self, worker: Worker) -> None:
        """Wait until a worker has events; the feed is running."""
        before = len(worker.journal())

        def some() -> bool:
            assert worker.running, worker.log()
            lines = worker.journal()[before:]
            return bool((lines["what"] == 0).any())

        wait_for(f"{worker.name} has events", some, LIMIT_S, describe(self.workers))

    def await_all_state(self, worker: Worker) -> None:
        """Wait until a worker needs no other's copy."""
        wait_for(f"{worker.name} has all state", worker.has_all_state, LIMIT_S, describe(self.workers))

    def drained(self) -> Verdict:
        """What all events say, once all are processed."""
        self.feed.stop()
        wait_for("all events are processed", lambda: not self.verdict().lost, LIMIT_S, self._describe)
        return self.verdict()

    def verdict(self) -> Verdict:
        """What the events say that are processed so far."""
        journals = {each.directory: each.journal() for each in self.workers}
        return judge(list(journals.values()), self.feed.ends)

    def close(self) -> None:
        """Leave no process behind."""
        self.feed.stop()
        for each in self.workers:
            each.close()

    def _describe(self) -> str:
        return f"{self.verdict()}\n{describe(self.workers)()}"


@contextmanager
def running(bootstrap: str, directory: Path, kind: str = "count", **options: Any) -> Iterator[Running]:
    """An application that leaves no process behind."""
    run = Running(bootstrap, directory, kind, **options)
    try:
        yield run
    finally:
        run.close()
