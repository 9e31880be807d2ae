"""Asks state managers in the same process: for tests and simulations, which put delays and losses in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from statemgr.errors import HolderUnavailableError
from statemgr.migration.ports import Address, Chunk, Description, LookedUp, Pending
from statemgr.sidecar.key_filter import KeyFilter
from statemgr.sidecar.pending import Failed, attempt
from statemgr.sidecar.reads import Read
from statemgr.sidecar.service import StateService
from statemgr.types import TaskId

T = TypeVar("T")


class DirectStateClient:
    """Implements :class:`statemgr.migration.ports.StateClient`; every answer is there at once.

    Args:
        services: holder → its state manager; may change at any time.
    """

    def __init__(self, services: Mapping[str, StateService]) -> None:
        self._services = services
        self._closed = False

    def describe(self, address: Address, at_least: int, timeout_s: float) -> Pending[Description]:
        """See :class:`statemgr.migration.ports.StateClient`."""
        return self._ask(address.layer.holder, lambda service: service.describe(address, at_least, timeout_s))

    def look_up(self, address: Address, at_least: int, keys: list[bytes], timeout_s: float) -> Pending[LookedUp]:
        """See :class:`statemgr.migration.ports.StateClient`."""
        return self._ask(address.layer.holder, lambda service: service.look_up(address, at_least, keys, timeout_s))

    def hot(self, address: Address, at_least: int, cursor: bytes, timeout_s: float) -> Pending[Chunk]:
        """See :class:`statemgr.migration.ports.StateClient`."""
        return self._ask(address.layer.holder, lambda service: service.hot(address, at_least, cursor, timeout_s))

    def bins(
        self, address: Address, at_least: int, first: int, last: int, cursor: bytes, timeout_s: float
    ) -> Pending[Chunk]:
        """See :class:`statemgr.migration.ports.StateClient`."""
        return self._ask(
            address.layer.holder, lambda service: service.bins(address, at_least, first, last, cursor, timeout_s)
        )

    def filter(self, address: Address, at_least: int, timeout_s: float) -> Pending[KeyFilter]:
        """A filter of the copy's keys, see :meth:`statemgr.sidecar.service.StateService.filter`."""
        return self._ask(address.layer.holder, lambda service: service.filter(address, at_least, timeout_s))

    def get(self, holder: str, task: TaskId, table: int, keys: list[bytes], timeout_s: float) -> Pending[Read]:
        """Committed values from a holder, see :meth:`statemgr.sidecar.service.StateService.get`."""
        return self._ask(holder, lambda service: service.get(task, table, keys, timeout_s))

    def close(self) -> None:
        """See :class:`statemgr.migration.ports.StateClient`."""
        self._closed = True

    def _ask(self, holder: str, call: Callable[[StateService], T]) -> Pending[T]:
        service = self._services.get(holder)
        if service is None or self._closed:
            return Failed(HolderUnavailableError(f"no state manager of {holder} can be reached"))
        return attempt(lambda: call(service))
