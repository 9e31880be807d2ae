"""A broker that is away for a while: stopped, or killed and started again with all of its data.

Nobody gets an answer meanwhile. What a client may do without the broker goes on: a transaction is begun, records are
queued, positions are known. Everything else waits until its own deadline, and then fails as it does with the real
client::

    consume                        nothing comes
    bounds, committed, describe    KafkaUnavailableError
    init, flush                    RetryableKafkaError
    offsets, commit, abort         ProducerLostError: the outcome is not known

What becomes of a commit whose answer never came is decided by :class:`Unanswered`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, TypeVar

from statemgr.errors import KafkaUnavailableError, ProducerLostError, RetryableKafkaError
from statemgr.kafka.ports import Bounds, Committed, Message, TopicInfo, TopicSpec
from statemgr.testing.admin import FakeAdmin
from statemgr.testing.cluster import Cluster
from statemgr.testing.consumer import FakeConsumer
from statemgr.testing.kafka import FakeKafka
from statemgr.testing.partition_log import Outcome
from statemgr.testing.producer import FakeProducer, Phase
from statemgr.types import TopicPartition
from tests.simulation.clocks import WorldClock
from tests.simulation.world import World

T = TypeVar("T")

LOOK_S = 0.05
"""Longest time until a waiting client notices that the broker is back; who is first is left to chance."""

LAST_REQUESTS_S = 0.3
"""How long requests may still arrive at a broker whose answers arrive nowhere any more."""


class Unanswered(StrEnum):
    """What becomes of requests that the broker did not answer any more."""

    LOST = "lost"
    """They never arrived."""

    DONE = "done"
    """The last ones took effect, and the answers were lost."""

    LATE = "late"
    """They lie in the sockets of a stopped broker, and take effect when it goes on, whoever has given them up."""


class Broker:
    """Whether the broker is there.

    Attributes:
        away: nobody gets an answer.
        back_s: when it is to be back, or was.
        on_return: called when it is back.
    """

    def __init__(self, world: World, cluster: Cluster) -> None:
        self.away = False
        self.back_s = 0.0
        self.on_return: Callable[[], object] = lambda: None
        self._world = world
        self._cluster = cluster
        self._since_s = 0.0
        self._unanswered = Unanswered.LOST
        self._late: list[tuple[str, Callable[[], object]]] = []
        self._leaves_at: tuple[str, float, Unanswered] | None = None

    def leave(self, seconds: float, unanswered: Unanswered, at: str = "") -> None:
        """Be away for a while, from now on, or from the next call of that name on."""
        if self.away:
            return
        if at:
            self._leaves_at = (at, seconds, unanswered)
            return
        self._world.note("broker", "is away")
        self.away, self._unanswered = True, unanswered
        self._since_s, self.back_s = self._world.now_s, self._world.now_s + seconds
        self._world.after(seconds, self.come_back)

    def meet(self, call: str) -> None:
        """A client calls: this may be the moment to leave."""
        if self._leaves_at is not None and self._leaves_at[0] == call:
            (_, seconds, unanswered), self._leaves_at = self._leaves_at, None
            self.leave(seconds, unanswered)

    def come_back(self) -> None:
        """Answer again: first what lay in the sockets, then what has timed out meanwhile."""
        if not self.away:
            return
        self.away = False
        self._world.note("broker", "is back")
        late, self._late = self._late, []
        for what, request in late:
            with suppress(ProducerLostError):
                request()
                self._world.note("broker", f"late: {what}")
        self._cluster.pass_time()
        self.on_return()

    def stay(self) -> None:
        """Be there from now on."""
        self._leaves_at = None
        self.come_back()

    def answers(self, timeout_s: float) -> bool:
        """Wait for the broker, if it is away; False: until the deadline it was not back."""
        world = self._world
        deadline_s = world.now_s + timeout_s
        while self.away and world.now_s < deadline_s:
            world.sleep(min(deadline_s - world.now_s, LOOK_S * world.rng.random()))
        return not self.away

    def require(self, what: str, timeout_s: float) -> None:
        """The same, for a question.

        Raises:
            KafkaUnavailableError: no answer before the deadline.
        """
        if not self.answers(timeout_s):
            raise KafkaUnavailableError(f"{what}: no answer from Kafka within {timeout_s:g} s")

    def take_last(self, what: str, request: Callable[[], object]) -> None:
        """Carry out what was sent at the last moment, of which nobody will hear."""
        recent = self._world.now_s - self._since_s < LAST_REQUESTS_S
        if self.away and self._unanswered is Unanswered.DONE and recent:
            with suppress(ProducerLostError):
                request()
                self._world.note("broker", f"without an answer: {what}")

    def give_up(self, what: str, request: Callable[[], object]) -> None:
        """The client waits no longer for an answer."""
        if self.away and self._unanswered is Unanswered.LATE:
            self._late.append((what, request))


class SimulatedKafka(FakeKafka):
    """The fake Kafka in a world, with a broker that may be away."""

    def __init__(self, world: World, *, marker_lag_s: float) -> None:
        super().__init__(WorldClock(world), marker_lag_s=marker_lag_s)
        self.broker = Broker(world, self.cluster)
        self.on_call(world.step)

    def consumer(self, *, read_committed: bool = True, columns: bool = False, name: str) -> FakeConsumer:
        """A new manually assigned consumer."""
        return _Consumer(self.broker, self.cluster, name, read_committed=read_committed, columns=columns)

    def producer(self, *, transactional_id: str | None, name: str) -> SimulatedProducer:
        """A new producer instance."""
        return SimulatedProducer(self.broker, self.cluster, name, transactional_id)

    def admin(self) -> FakeAdmin:
        """Administration."""
        return _Admin(self.broker, self.cluster, "admin")


class _Consumer(FakeConsumer):
    def __init__(self, broker: Broker, cluster: Cluster, name: str, *, read_committed: bool, columns: bool) -> None:
        super().__init__(cluster, name, read_committed=read_committed, columns=columns)
        self._broker = broker

    def _consume(self, max_records: int, timeout_s: float) -> list[Message]:
        return super()._consume(max_records, timeout_s) if self._broker.answers(timeout_s) else []

    def bounds(self, partition: TopicPartition, timeout_s: float) -> Bounds:
        self._broker.meet("bounds")
        self._broker.require(f"offsets of {partition}", timeout_s)
        return super().bounds(partition, timeout_s)

    def committed(
        self, group: str, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, Committed]:
        self._broker.require(f"committed offsets of group {group}", timeout_s)
        return super().committed(group, partitions, timeout_s)


class _Admin(FakeAdmin):
    def __init__(self, broker: Broker, cluster: Cluster, name: str) -> None:
        super().__init__(cluster, name)
        self._broker = broker

    def describe(self, names: Sequence[str], timeout_s: float) -> dict[str, TopicInfo]:
        self._broker.require(f"settings of {', '.join(names)}", timeout_s)
        return super().describe(names, timeout_s)

    def create(self, specs: Sequence[TopicSpec], replication: int, timeout_s: float) -> None:
        self._broker.require(f"creating {', '.join(spec.name for spec in specs)}", timeout_s)
        super().create(specs, replication, timeout_s)


class SimulatedProducer(FakeProducer):
    """A producer that queues its records while the broker is away."""

    def __init__(self, broker: Broker, cluster: Cluster, name: str, transactional_id: str | None) -> None:
        super().__init__(cluster, name, transactional_id)
        self._broker = broker
        self._timeout_s = 0.0
        self._queue: list[tuple[Any, ...]] = []

    def init_transactions(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        super().init_transactions(timeout_s)

    def flush(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        super().flush(timeout_s)

    def send_offsets(self, offsets: Mapping[TopicPartition, tuple[int, str]], group: str, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        super().send_offsets(offsets, group, timeout_s)

    def commit(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        super().commit(timeout_s)

    def abort(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        super().abort(timeout_s)

    def close(self) -> None:
        """Aborting needs the broker; without it the transaction stays open."""
        if self._broker.away:
            self._phase, self._lost = Phase.LOST, self._lost or "closed"
        super().close()

    def send_queued(self) -> None:
        """Let the queued records reach the log."""
        queue, self._queue = self._queue, []
        for record in queue:
            super()._produce(*record)

    def _produce(self, *record: Any) -> None:
        if self._broker.away:
            self._expect("produce", Phase.OPEN)
            self._queue.append(record)
            return
        self.send_queued()
        super()._produce(*record)

    def _step(self, call: str, act: Callable[[], T]) -> T:
        return super()._step(call, lambda: self._reach(call, act))

    def _reach(self, call: str, act: Callable[[], T]) -> T:
        """Wait for the broker where the call needs it, and send what is queued before."""
        if call not in _NEEDS_BROKER:
            return act()
        self._broker.meet(call)
        if call == "flush" and not self._queue:
            return act()  # all is acknowledged
        if call == "commit" and self._may_end:
            self._broker.take_last(f"commit of {self._id}", self._commit_unseen)
        if not self._broker.answers(self._timeout_s):
            raise self._no_answer(call)
        self.send_queued()
        return act()

    def _no_answer(self, call: str) -> Exception:
        text = f"{call}: no definite answer from Kafka within {self._timeout_s:g} s"
        if call == "flush":
            return RetryableKafkaError(text)
        if call == "init_transactions":
            self._broker.give_up(f"init of {self._id}", lambda: self._cluster.init(self._transactional_id))
            return RetryableKafkaError(text)
        if call == "commit" and self._may_end:
            self._broker.give_up(f"commit of {self._id}", self._commit_unseen)
        return ProducerLostError(text)

    @property
    def _may_end(self) -> bool:
        """Whether the end of the transaction is asked for: only once every record of it is acknowledged."""
        return not self._queue and self._failure is None

    def _commit_unseen(self) -> None:
        self._cluster.end(self._transactional_id, self._epoch, Outcome.COMMITTED)


_NEEDS_BROKER = frozenset({"init_transactions", "flush", "send_offsets", "commit", "abort"})
