"""State managers on the simulated network, and how replicas ask them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from statemgr.errors import HolderUnavailableError
from statemgr.migration.ports import Address, Chunk, Description, LookedUp, Pending
from statemgr.sidecar.key_filter import KeyFilter
from tests.simulation.lanes import Process
from tests.simulation.network import Network
from tests.simulation.world import World

T = TypeVar("T")


def address_of(machine: str) -> str:
    """Where the state manager of a machine is reached."""
    return f"{machine}:1"


class Answer(Generic[T]):
    """A :class:`~statemgr.migration.ports.Pending` that a message completes, or its deadline."""

    def __init__(self, world: World, what: str, timeout_s: float) -> None:
        self._world = world
        self._what = what
        self._deadline_s = world.now_s + timeout_s
        self._outcome: Callable[[], T] | None = None

    def done(self) -> bool:
        """See the protocol."""
        return self._outcome is not None or self._world.now_s >= self._deadline_s

    def result(self) -> T:
        """See the protocol."""
        if self._outcome is None:
            raise HolderUnavailableError(f"no answer in time: {self._what}")
        return self._outcome()

    def arrive(self, outcome: Callable[[], T]) -> None:
        """The first answer before the deadline counts."""
        if not self.done():
            self._outcome = outcome


@dataclass(frozen=True)
class Request:
    """A question under way.

    Attributes:
        what: in words.
        ask: asks a :class:`statemgr.sidecar.service.StateService`.
        answer: carries an outcome back.
        address: the copy in question; None: a read from outside.
    """

    what: str
    ask: Callable[[Any], Any]
    answer: Callable[[Callable[[], Any]], None]
    address: Address | None = None


@dataclass
class Directory:
    """Which state managers are up: address → what takes a request."""

    inboxes: dict[str, Callable[[Request], None]] = field(default_factory=dict)


class NetworkStateClient:
    """Implements :class:`~statemgr.migration.ports.StateClient` by messages.

    Args:
        world: time.
        network: carries the messages.
        directory: who listens where.
        source: who asks.
        holders: name → address by the newest hints; an address in a layer may be old.
    """

    def __init__(
        self, world: World, network: Network, directory: Directory, source: str, holders: Mapping[str, str]
    ) -> None:
        self._world = world
        self._network = network
        self._directory = directory
        self._source = source
        self._holders = holders

    def describe(self, address: Address, at_least: int, timeout_s: float) -> Pending[Description]:
        """See the protocol."""
        return self._ask(address, timeout_s, "describe", at_least)

    def look_up(self, address: Address, at_least: int, keys: list[bytes], timeout_s: float) -> Pending[LookedUp]:
        """See the protocol."""
        return self._ask(address, timeout_s, "look_up", at_least, list(keys))

    def hot(self, address: Address, at_least: int, cursor: bytes, timeout_s: float) -> Pending[Chunk]:
        """See the protocol."""
        return self._ask(address, timeout_s, "hot", at_least, cursor)

    def bins(
        self, address: Address, at_least: int, first: int, last: int, cursor: bytes, timeout_s: float
    ) -> Pending[Chunk]:
        """See the protocol."""
        return self._ask(address, timeout_s, "bins", at_least, first, last, cursor)

    def filter(self, address: Address, at_least: int, timeout_s: float) -> Pending[KeyFilter]:
        """See the protocol."""
        return self._ask(address, timeout_s, "filter", at_least)

    def close(self) -> None:
        """See the protocol."""

    def _ask(self, address: Address, timeout_s: float, method: str, *args: Any) -> Answer[Any]:
        where = self._holders.get(address.layer.holder, address.layer.address) or address_of(address.layer.holder)
        what = f"{method} {address.task}@{address.layer.epoch} of {where} for epoch {address.target}"
        answer: Answer[Any] = Answer(self._world, what, timeout_s)
        request = Request(
            what,
            lambda service: getattr(service, method)(address, *args, timeout_s),
            lambda outcome: self._network.send(listener(where), self._source, lambda: answer.arrive(outcome)),
            address,
        )
        self._network.send(self._source, listener(where), lambda: self._arrive(where, request))
        return answer

    def _arrive(self, where: str, request: Request) -> None:
        inbox = self._directory.inboxes.get(where)
        if inbox is None:
            request.answer(_raising(HolderUnavailableError(f"nobody listens at {where}")))
        else:
            inbox(request)


def listener(address: str) -> str:
    """Name of a state manager's process."""
    return f"holder {address.partition(':')[0]}"


def outcome_of(work: Callable[[], T]) -> Callable[[], T]:
    """Run ``work`` now; the result, or what it raised, comes when the outcome is called."""
    try:
        value = work()
    except Exception as error:  # noqa: BLE001 - raised again by whoever calls the outcome
        return _raising(error)
    return lambda: value


def _raising(error: Exception) -> Callable[[], Any]:
    def outcome() -> Any:
        raise error

    return outcome


def shown(outcome: Callable[[], Any]) -> str:
    """An outcome in words, for the history."""
    try:
        return f"{outcome()!r:.300}"
    except Exception as error:  # noqa: BLE001 - only shown
        return f"{error!r}"


class Running(Generic[T]):
    """What a lane beside the caller's computes."""

    def __init__(self, world: World, process: Process, work: Callable[[], T]) -> None:
        self._outcome: Callable[[], T] | None = None
        world.spawn(process, lambda: self._run(work))

    def done(self) -> bool:
        """See :class:`~statemgr.migration.ports.Pending`."""
        return self._outcome is not None

    def result(self) -> T:
        """See :class:`~statemgr.migration.ports.Pending`."""
        if self._outcome is None:
            raise AssertionError("a result was asked for before it was there")
        return self._outcome()

    def _run(self, work: Callable[[], T]) -> None:
        self._outcome = outcome_of(work)
