"""A replica's process as the driver sees it: it starts, takes turns, crashes, stops; its stores may outlive it."""

from __future__ import annotations

from functools import partial

from statemgr.errors import StopRequestedError
from statemgr.store import StoreBackend
from statemgr.testing.kafka import ClientCrashedError, FakeKafka, ManualClock
from statemgr.types import TaskId
from towpath.query.plan import StagePlan
from towpath.stage.codecs import codecs_of
from towpath.stage.metrics import StageMetrics
from towpath.stage.phases import Phase
from towpath.stage.processor import FrameProcessor
from towpath.stage.replica import Controls, Replica
from towpath.stage.settings import StageSettings
from towpath.testing.stores import FaultyBackend

_CLIENTS = ("", "-outputs", "-offsets", "-restore")
"""Suffixes of the client names of a replica."""

_ENDED = (Phase.STOPPED, Phase.FAILED)


class ReplicaProcess:
    """One place in a static plan, and the replica that runs there at the moment."""

    def __init__(
        self,
        plan: StagePlan,
        settings: StageSettings,
        kafka: FakeKafka,
        clock: ManualClock,
        backend: StoreBackend,
    ) -> None:
        self.plan = plan
        self.settings = settings
        self._kafka = kafka
        self._clock = clock
        self.stores = FaultyBackend(backend)
        self._stopping = False
        self.replica: Replica | None = None
        self.metrics = StageMetrics(plan.name, settings.replica)

    @property
    def name(self) -> str:
        """Name of the replica, for example ``count-0``; also that of its Kafka clients."""
        return self.settings.replica

    @property
    def stopped(self) -> bool:
        """Whether it was asked to stop."""
        return self._stopping

    def turn(self) -> int:
        """Start the process if it does not run, else let the replica take one turn; gives the records it took."""
        if self._stopping:
            self.stop()
            return 0
        replica = self.replica or self._start()
        try:
            return replica.turn()
        except ClientCrashedError:
            self.crash()
            return 0
        except StopRequestedError:
            self.stop()
            return 0
        except BaseException:
            replica.fail()
            raise

    def crash(self) -> None:
        """End the process without a word: no commit, its transaction stays open; the next turn starts it again."""
        self.replica = None
        self.stores.close()

    def lose_stores(self) -> None:
        """Delete the stores of all tasks, as a lost disk does; the process must not run."""
        topics = [self._kafka.cluster.topics.get(item.topic) for item in self.plan.inputs]
        for partition in range(max(topic.info.partitions for topic in topics if topic is not None)):
            task = TaskId(self.plan.name, partition)
            for epoch in self.stores.existing(task):
                self.stores.destroy(task, epoch)

    def ask_to_stop(self) -> None:
        """What SIGTERM does; the replica notices at its next look."""
        self._stopping = True

    def stop(self) -> None:
        """SIGTERM, and wait until the process has ended."""
        self._stopping = True
        if self.replica is not None and self.replica.phase not in _ENDED:
            try:
                self.replica.finish()
            except ClientCrashedError:
                self.crash()

    def restart(self) -> None:
        """Let the next turn start the process again."""
        self.stop()
        self.replica = None
        self._stopping = False

    def _start(self) -> Replica:
        for suffix in _CLIENTS:
            self._kafka.restart(self.name + suffix)
        self.metrics = StageMetrics(self.plan.name, self.name)
        codecs = codecs_of(self.plan, self.settings, self._clock)
        codecs.prepare(self.settings.wait_s, self._clock, lambda: self._stopping, self._clock.advance)
        self.replica = Replica(
            self.plan,
            self.settings,
            self._kafka,
            self.stores,
            self._clock,
            self.metrics,
            Controls(lambda: self._stopping, self._clock.advance),
            make_processor=partial(FrameProcessor, codecs=codecs),
        )
        return self.replica
