"""Asks state managers over the network."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import accumulate
from typing import Any, Generic, TypeVar

import grpc

from statemgr.control.records import Layer
from statemgr.errors import CodecError, HolderUnavailableError, SecurityError
from statemgr.migration.ports import Address, Chunk, Description, LookedUp, Pending
from statemgr.security import Credentials
from statemgr.sidecar import wire
from statemgr.sidecar.channels import REQUEST_KEY_BYTES
from statemgr.sidecar.key_filter import KeyFilter
from statemgr.sidecar.pending import Failed
from statemgr.sidecar.reads import Read
from statemgr.sidecar.secured import call_metadata, open_channel
from statemgr.sidecar.status import error_of
from statemgr.sidecar.v1 import statemgr_pb2 as pb
from statemgr.sidecar.v1 import statemgr_pb2_grpc
from statemgr.types import TaskId

T = TypeVar("T")


class GrpcStateClient:
    """Implements :class:`statemgr.migration.ports.StateClient`; may be used by many threads.

    There is one connection to each address. A holder that has moved to another address gets a new one, and what is
    pending on the old one fails.

    Args:
        address_of: gives the newest known address of a layer's holder as ``host:port``; empty: none is known.
        credentials: shown to state managers.
    """

    def __init__(self, address_of: Callable[[Layer], str], credentials: Credentials | None = None) -> None:
        self._address_of = address_of
        self._credentials = credentials or Credentials()
        self._metadata = call_metadata(self._credentials)
        self._addresses: dict[str, str] = {}
        self._connections: dict[str, _Connection] = {}
        self._lock = threading.Lock()
        self._closed = False

    def describe(self, address: Address, at_least: int, timeout_s: float) -> Pending[Description]:
        """See :class:`statemgr.migration.ports.StateClient`."""
        request = pb.DescribeRequest(address=wire.address_message(address, at_least))
        return self._ask(address.layer, "Describe", request, timeout_s, wire.read_description)

    def look_up(self, address: Address, at_least: int, keys: list[bytes], timeout_s: float) -> Pending[LookedUp]:
        """See :class:`statemgr.migration.ports.StateClient`."""
        request = pb.LookUpRequest(address=wire.address_message(address, at_least), keys=_that_fit(keys))
        return self._ask(address.layer, "LookUp", request, timeout_s, wire.read_looked_up)

    def hot(self, address: Address, at_least: int, cursor: bytes, timeout_s: float) -> Pending[Chunk]:
        """See :class:`statemgr.migration.ports.StateClient`."""
        request = pb.HotRequest(address=wire.address_message(address, at_least), cursor=cursor)
        return self._ask(address.layer, "Hot", request, timeout_s, wire.read_chunk)

    def bins(
        self, address: Address, at_least: int, first: int, last: int, cursor: bytes, timeout_s: float
    ) -> Pending[Chunk]:
        """See :class:`statemgr.migration.ports.StateClient`."""
        request = pb.BinsRequest(address=wire.address_message(address, at_least), first=first, last=last, cursor=cursor)
        return self._ask(address.layer, "Bins", request, timeout_s, wire.read_chunk)

    def filter(self, address: Address, at_least: int, timeout_s: float) -> Pending[KeyFilter]:
        """A filter of the copy's keys, see :meth:`statemgr.sidecar.service.StateService.filter`."""
        request = pb.FilterRequest(address=wire.address_message(address, at_least))
        return self._ask(address.layer, "Filter", request, timeout_s, wire.read_filter)

    def get(self, holder: str, task: TaskId, table: int, keys: list[bytes], timeout_s: float) -> Pending[Read]:
        """Committed values from a holder, see :meth:`statemgr.sidecar.service.StateService.get`."""
        request = pb.GetRequest(stage=task.stage, partition=task.partition, table=table, keys=_that_fit(keys))
        return self._ask(Layer(holder, 0), "Get", request, timeout_s, wire.read_read)

    def close(self) -> None:
        """See :class:`statemgr.migration.ports.StateClient`."""
        with self._lock:
            self._closed = True
            connections = list(self._connections.values())
            self._connections.clear()
        for connection in connections:
            connection.channel.close()

    def _ask(
        self, layer: Layer, method: str, request: object, timeout_s: float, read: Callable[[Any], T]
    ) -> Pending[T]:
        address = self._address_of(layer)
        holder = f"{layer.holder} at {address or 'an unknown address'}"
        try:
            connection = self._connection(layer.holder, address) if address else None
        except SecurityError as error:  # certificates that are just being replaced
            return Failed(HolderUnavailableError(f"the state manager of {holder} can't be asked: {error}"))
        if connection is None:
            return Failed(HolderUnavailableError(f"the state manager of {holder} can't be asked"))
        try:
            call = getattr(connection.stub, method).future(request, timeout=timeout_s, metadata=self._metadata)
            return GrpcPending(call, read, holder)
        except ValueError as error:  # the channel was closed meanwhile
            return Failed(HolderUnavailableError(f"the connection to {holder} was closed: {error}"))

    def _connection(self, holder: str, address: str) -> _Connection | None:
        """The connection to an address; None once the client is closed."""
        with self._lock:
            if self._closed:
                return None
            stale = self._moved(holder, address)
            connection = self._connections.get(address)
            if connection is None:
                connection = self._connections[address] = _Connection(open_channel(address, self._credentials))
        if stale is not None:
            stale.channel.close()
        return connection

    def _moved(self, holder: str, address: str) -> _Connection | None:
        """Note where a holder is; gives the connection to where it was, if that is of no use any more."""
        former = self._addresses.get(holder)
        self._addresses[holder] = address
        if former is None or former in self._addresses.values():
            return None
        return self._connections.pop(former, None)


class _Connection:
    """A channel, and the calls that can be made on it."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.channel = channel
        self.stub: Any = statemgr_pb2_grpc.StateManagerStub(self.channel)  # type: ignore[no-untyped-call]


class GrpcPending(Generic[T]):
    """A request under way; it fails by itself at its deadline."""

    def __init__(self, future: Any, read: Callable[[Any], T], holder: str) -> None:
        self._future = future
        self._read = read
        self._holder = holder

    def done(self) -> bool:
        """See :class:`statemgr.migration.ports.Pending`."""
        return bool(self._future.done())

    def result(self) -> T:
        """See :class:`statemgr.migration.ports.Pending`; waits for the answer, at most until the deadline."""
        try:
            return self._read(self._future.result())
        except grpc.FutureCancelledError as error:
            raise HolderUnavailableError(f"the connection to {self._holder} was closed") from error
        except grpc.RpcError as error:
            raise error_of(error.code(), error.details() or "", self._holder) from error
        except CodecError as error:
            raise HolderUnavailableError(f"the state manager of {self._holder} answered with {error}") from error


def _that_fit(keys: list[bytes]) -> list[bytes]:
    """The first keys, at least one, that fit into a request."""
    for count, size in enumerate(accumulate(map(len, keys))):
        if size > REQUEST_KEY_BYTES and count:
            return keys[:count]
    return keys
