"""Faults as items of a schedule: calls that fail before or after their effect, and crashes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

ANY = "*"
"""Matches every call, or every client."""


class ClientCrashedError(BaseException):
    """The process that owns this client is dead: it must not get to handle this.

    Not an ``Exception``, so that no recovery code of the process under test runs after its death.
    """


@dataclass
class Fault:
    """One planned fault.

    Attributes:
        call: name of a method of a client, or :data:`ANY`.
        error: what is raised.
        client: name of the client that meets it, or :data:`ANY`.
        skip: how many matching calls pass first.
        after: whether the call takes effect before the error is raised ("applied, but the answer was lost").
    """

    call: str
    error: BaseException
    client: str = ANY
    skip: int = 0
    after: bool = False

    def matches(self, client: str, call: str) -> bool:
        """Whether this fault is meant for the call."""
        return self.call in (ANY, call) and self.client in (ANY, client)


class Faults:
    """The faults that are still to come."""

    def __init__(self) -> None:
        self._planned: list[Fault] = []
        self._dead: set[str] = set()
        self.on_call: Callable[[str, str], None] | None = None

    def plan(self, fault: Fault) -> None:
        """Add a fault; each is used once."""
        self._planned.append(fault)

    @property
    def pending(self) -> tuple[Fault, ...]:
        """Faults that no call has met yet."""
        return tuple(self._planned)

    def kill(self, client: str) -> None:
        """Every later call of this client raises :class:`ClientCrashedError`."""
        self._dead.add(client)

    def revive(self, client: str) -> None:
        """Clients of this name made from now on belong to a new process."""
        self._dead.discard(client)

    def enter(self, client: str, call: str) -> Fault | None:
        """Raise what is due before the call; returns the fault to be raised after it."""
        if client in self._dead:
            raise ClientCrashedError(f"{client} is dead and called {call}")
        if self.on_call is not None:
            self.on_call(client, call)
        fault = self._take(client, call)
        if fault is None or fault.after:
            return fault
        raise self._raised(fault, client)

    def leave(self, fault: Fault | None, client: str) -> None:
        """Raise what is due after the call."""
        if fault is not None:
            raise self._raised(fault, client)

    def _take(self, client: str, call: str) -> Fault | None:
        for fault in self._planned:
            if fault.matches(client, call):
                if fault.skip == 0:
                    self._planned.remove(fault)
                    return fault
                fault.skip -= 1
        return None

    def _raised(self, fault: Fault, client: str) -> BaseException:
        if isinstance(fault.error, ClientCrashedError):
            self.kill(client)
        return fault.error
