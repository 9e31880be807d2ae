"""State managers on the simulated network, and how replicas ask them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from statemgr.errors import HolderUnavailableError
from statemgr.migration.ports import Address, Chunk, Description, LookedUp, Pending
from tests.simulation.network import Network
from tests.simulation.world import Process, World

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


@dataclass
class Directory:
    """Which state managers are up: address → its process and its service."""

    services: dict[str, tuple[Process, Any]] = field(default_factory=dict)


class NetworkStateClient:
    """Implements :class:`~statemgr.migration.ports.StateClient` by messages."""

    def __init__(self, world: World, network: Network, directory: Directory, source: str) -> None:
        self._world = world
        self._network = network
        self._directory = directory
        self._source = source

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

    def close(self) -> None:
        """See the protocol."""

    def _ask(self, address: Address, timeout_s: float, method: str, *args: Any) -> Answer[Any]:
        where = address.layer.address or address_of(address.layer.holder)
        what = f"{method} {address.task}@{address.layer.epoch} of {where} for epoch {address.target}"
        answer: Answer[Any] = Answer(self._world, what, timeout_s)
        target = where.partition(":")[0]
        self._network.send(
            self._source,
            f"holder {target}",
            lambda: self._arrive(where, answer, what, lambda service: getattr(service, method)(address, *args)),
        )
        return answer

    def _arrive(self, where: str, answer: Answer[Any], what: str, ask: Callable[[Any], Any]) -> None:
        found = self._directory.services.get(where)
        if found is None or found[0].dead:
            self._send_back(where, answer, _refuse(f"nobody listens at {where}"))
            return
        process, service = found
        self._world.spawn(process, lambda: self._serve(process, service, where, answer, what, ask))

    def _serve(
        self,
        process: Process,
        service: Any,
        where: str,
        answer: Answer[Any],
        what: str,
        ask: Callable[[Any], Any],
    ) -> None:
        outcome = outcome_of(lambda: ask(service))
        if self._world.trace:
            self._world.note(process.name, f"{what}: {_shown(outcome)}")
        self._send_back(where, answer, outcome)

    def _send_back(self, where: str, answer: Answer[Any], outcome: Callable[[], Any]) -> None:
        self._network.send(f"holder {where.partition(':')[0]}", self._source, lambda: answer.arrive(outcome))


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


def _refuse(text: str) -> Callable[[], Any]:
    return _raising(HolderUnavailableError(text))


def _shown(outcome: Callable[[], Any]) -> str:
    try:
        return f"{outcome()!r:.200}"
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
