"""What stands around the replicas of a cluster in one thread: everything is real but time, and all of it is noted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from statemgr.errors import HolderUnavailableError, StoreWriteError
from statemgr.kafka.ports import Message
from statemgr.migration.ports import Address, Pending
from statemgr.sidecar.direct import DirectStateClient
from statemgr.sidecar.pending import attempt
from statemgr.store import Entry, Store, StoreBackend, StoreMeta
from statemgr.testing.kafka import ManualClock
from statemgr.types import TaskId
from tests.unit.towpath.stage.journal import Arrived, Request, Rows
from towpath.coordinator.messages import Heartbeat, HeartbeatAnswer
from towpath.stage.ownership import Topics
from towpath.stage.processor import FrameProcessor
from towpath.stage.tasks import OwnedTask
from towpath.testing.stores import ForwardingBackend, ForwardingStore

if TYPE_CHECKING:
    from tests.unit.towpath.stage.cluster import Cluster

T = TypeVar("T")

ANSWER_S = 0.002
"""A state manager's answer is so long under way."""

WRITE_S = 0.001
"""A store's write takes so long: what arrives in the background needs time."""


class Later(Generic[T]):
    """An answer under way: given when it arrives, as of then."""

    def __init__(self, ask: Callable[[], Pending[T]], come: Callable[[], bool]) -> None:
        self._ask = ask
        self._come = come
        self._answer: Pending[T] | None = None

    def done(self) -> bool:
        if self._answer is None and self._come():
            self._answer = self._ask()
        return self._answer is not None

    def result(self) -> T:
        assert self.done()
        assert self._answer is not None
        return self._answer.result()


class WatchedClient:
    """A :class:`~statemgr.migration.ports.StateClient` whose every request is in the journal, and takes time."""

    def __init__(self, cluster: Cluster, asker: str) -> None:
        self._cluster = cluster
        self._asker = asker
        self._inner = DirectStateClient(cluster.services)

    def __getattr__(self, call: str) -> Any:
        if call not in {"describe", "look_up", "hot", "bins", "filter"}:
            raise AttributeError(call)
        return partial(self._ask, call)

    def close(self) -> None:
        """See the protocol."""

    def _ask(self, call: str, address: Address, *args: Any) -> Later[Any]:
        cluster = self._cluster
        cluster.journal.note(Request(self._asker, call, address, args))
        comes_s = cluster.clock.monotonic_s() + ANSWER_S

        def ask() -> Pending[Any]:
            if address.layer.holder in cluster.cut:
                return attempt(_nobody)
            return getattr(self._inner, call)(address, *args)

        return Later(ask, lambda: cluster.clock.monotonic_s() >= comes_s)


def _nobody() -> None:
    raise HolderUnavailableError("nobody is there")


class WatchedProcessor(FrameProcessor):
    """The real processor; what comes to it is in the journal."""

    def __init__(self, cluster: Cluster, replica: str, *args: Any) -> None:
        super().__init__(*args)
        self._cluster = cluster
        self._replica = replica
        self._epochs: dict[int, int] = {}

    def own(self, tasks: Any, topics: Topics) -> None:
        for partition, task in tasks.items():
            if self._epochs.get(partition) != task.epoch:
                self._cluster.journal.note(Arrived(self._replica, task.id, task.epoch))
        self._epochs = {partition: task.epoch for partition, task in tasks.items()}
        super().own(tasks, topics)

    def process(self, messages: Sequence[Message], *, gather: bool = False) -> None:
        for partition in sorted({message.partition() for message in messages}):
            task: OwnedTask = self._tasks[partition]
            self._cluster.journal.note(Rows(self._replica, task.id, task.epoch, complete=not task.migrating))
        super().process(messages, gather=gather)


class TimedBackend(ForwardingBackend):
    """A :class:`~statemgr.store.StoreBackend` whose writes take time.

    Attributes:
        full: whether there is no room for a write.
    """

    def __init__(self, inner: StoreBackend, clock: ManualClock) -> None:
        super().__init__(inner)
        self.inner = inner
        self.full = False
        self.clock = clock

    def open(self, task: TaskId, epoch: int, *, filling: bool = False) -> Store:
        return _TimedStore(super().open(task, epoch, filling=filling), self)

    def filled(self, stores: Sequence[tuple[TaskId, int]]) -> list[Store]:
        return [_TimedStore(store, self) for store in super().filled(stores)]


class _TimedStore(ForwardingStore):
    def __init__(self, inner: Store, disk: TimedBackend) -> None:
        super().__init__(inner)
        self._disk = disk

    def write(self, entries: Iterable[Entry], meta: StoreMeta) -> None:
        self._take_time()
        super().write(entries, meta)

    def put_raw(self, entries: Iterable[Entry]) -> None:
        self._take_time()
        super().put_raw(entries)

    def _take_time(self) -> None:
        self._disk.clock.advance(WRITE_S)
        if self._disk.full:
            raise StoreWriteError("no space left on device")


class DirectLink:
    """A :class:`towpath.stage.link.Link`; the cluster's step carries the heartbeat."""

    def __init__(self) -> None:
        self.beat: Heartbeat | None = None
        self.answer: HeartbeatAnswer | None = None

    def say(self, beat: Heartbeat, *, at_once: bool = False) -> None:
        self.beat = beat

    def heard(self) -> HeartbeatAnswer | None:
        answer, self.answer = self.answer, None
        return answer

    def close(self) -> None:
        """The cluster carries what was said last."""
