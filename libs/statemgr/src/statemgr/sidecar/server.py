"""A state manager on the network: gRPC with a bounded number of threads, and a bounded number of requests at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from statemgr.errors import StateError
from statemgr.layout import BIN_COUNT, PROGRESS_TABLE
from statemgr.migration.ports import Address
from statemgr.security import Credentials, check_listening
from statemgr.sidecar import wire
from statemgr.sidecar.channels import SERVER_OPTIONS
from statemgr.sidecar.secured import TokenCheck, listen
from statemgr.sidecar.service import StateService
from statemgr.sidecar.status import code_of
from statemgr.sidecar.v1 import statemgr_pb2 as pb
from statemgr.sidecar.v1 import statemgr_pb2_grpc
from statemgr.types import TaskId

SERVICE = "towpath.statemgr.v1.StateManager"
"""Name under which health is asked for: serving once the control log has been read to its end."""

WHAT = "the state manager"
"""In messages about where it listens."""

THREADS = 8
"""Requests that are worked on at once. Reading takes the interpreter's lock; the others wait for an owner to write."""

REQUESTS = 64
"""Requests that may be under way or waiting; with answers of at most 1 MiB each 64 MiB."""

LONGEST_S = 30.0
"""A request without a deadline, or with a later one, gets this one."""

T = TypeVar("T")


class StateManager(statemgr_pb2_grpc.StateManagerServicer):
    """Carries requests to a service, and its errors back as status codes.

    Args:
        service: answers.
    """

    def __init__(self, service: StateService) -> None:
        self._service = service

    def Describe(self, request: pb.DescribeRequest, context: grpc.ServicerContext) -> pb.DescribeResponse:  # noqa: N802
        """See :meth:`StateService.describe`."""

        def answer(timeout_s: float) -> pb.DescribeResponse:
            return wire.description_message(self._service.describe(*_address(request), timeout_s))

        return _answer(context, answer)

    def LookUp(self, request: pb.LookUpRequest, context: grpc.ServicerContext) -> pb.LookUpResponse:  # noqa: N802
        """See :meth:`StateService.look_up`."""

        def answer(timeout_s: float) -> pb.LookUpResponse:
            return wire.looked_up_message(self._service.look_up(*_address(request), request.keys, timeout_s))

        return _answer(context, answer)

    def Hot(self, request: pb.HotRequest, context: grpc.ServicerContext) -> pb.ChunkResponse:  # noqa: N802
        """See :meth:`StateService.hot`."""

        def answer(timeout_s: float) -> pb.ChunkResponse:
            return wire.chunk_message(self._service.hot(*_address(request), request.cursor, timeout_s))

        return _answer(context, answer)

    def Bins(self, request: pb.BinsRequest, context: grpc.ServicerContext) -> pb.ChunkResponse:  # noqa: N802
        """See :meth:`StateService.bins`."""

        def answer(timeout_s: float) -> pb.ChunkResponse:
            first, last = _bins(request)
            return wire.chunk_message(self._service.bins(*_address(request), first, last, request.cursor, timeout_s))

        return _answer(context, answer)

    def Filter(self, request: pb.FilterRequest, context: grpc.ServicerContext) -> pb.FilterResponse:  # noqa: N802
        """See :meth:`StateService.filter`."""

        def answer(timeout_s: float) -> pb.FilterResponse:
            return wire.filter_message(self._service.filter(*_address(request), timeout_s))

        return _answer(context, answer)

    def Get(self, request: pb.GetRequest, context: grpc.ServicerContext) -> pb.GetResponse:  # noqa: N802
        """See :meth:`StateService.get`."""

        def answer(timeout_s: float) -> pb.GetResponse:
            task = TaskId(request.stage, request.partition)
            return wire.read_message(self._service.get(task, _table(request), request.keys, timeout_s))

        return _answer(context, answer)


class StateServer:
    """Listens for requests to a service.

    Args:
        service: answers.
        host: address to listen at.
        port: port to listen at; 0: a free one.
        credentials: what callers have to show.
        threads: requests worked on at once.
        requests: requests under way at once; one more is refused with RESOURCE_EXHAUSTED.

    Attributes:
        port: where it listens.

    Raises:
        OSError: it can't listen there.
        SecurityError: others reach it there and need show nothing, or TLS can't be set up.
    """

    def __init__(
        self,
        service: StateService,
        host: str = "127.0.0.1",
        port: int = 0,
        credentials: Credentials | None = None,
        *,
        threads: int = THREADS,
        requests: int = REQUESTS,
    ) -> None:
        credentials = credentials or Credentials()
        check_listening(host, credentials, WHAT)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="requests")
        self._server = grpc.server(
            self._pool,
            interceptors=[TokenCheck(credentials)],
            options=SERVER_OPTIONS,
            maximum_concurrent_rpcs=requests,
        )
        self._health = health.HealthServicer()
        statemgr_pb2_grpc.add_StateManagerServicer_to_server(  # type: ignore[no-untyped-call]
            StateManager(service), self._server
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self.set_ready(False)
        self.port = _listen(self._server, host, port, credentials)

    def start(self) -> None:
        """Answer from now on."""
        self._server.start()

    def set_ready(self, ready: bool) -> None:
        """What health says of the service; the process itself is always serving."""
        state = health_pb2.HealthCheckResponse.SERVING if ready else health_pb2.HealthCheckResponse.NOT_SERVING
        self._health.set(SERVICE, state)

    def stop(self, grace_s: float) -> None:
        """Take no more requests, and give those under way so much time."""
        self._server.stop(grace_s).wait(grace_s + 1.0)
        self._pool.shutdown(wait=False, cancel_futures=True)


def _listen(server: grpc.Server, host: str, port: int, credentials: Credentials) -> int:
    literal = f"[{host}]" if ":" in host else host
    found = listen(server, f"{literal}:{port}", credentials)
    if not found:
        raise OSError(f"can't listen at {host}:{port}: is the port in use, or the address another machine's?")
    return found


Addressed = pb.DescribeRequest | pb.LookUpRequest | pb.HotRequest | pb.BinsRequest | pb.FilterRequest


def _address(request: Addressed) -> tuple[Address, int]:
    if not request.HasField("address"):
        raise ValueError("the request names no copy")
    return wire.read_address(request.address)


def _bins(request: pb.BinsRequest) -> tuple[int, int]:
    if not request.first <= request.last < BIN_COUNT:
        raise ValueError(f"bins {request.first} to {request.last}: the last is {BIN_COUNT - 1}")
    return request.first, request.last


def _table(request: pb.GetRequest) -> int:
    if request.table > PROGRESS_TABLE:
        raise ValueError(f"table {request.table}: an id has 2 bytes")
    return request.table


def _answer(context: grpc.ServicerContext, answer: Callable[[float], T]) -> T:
    left_s = context.time_remaining()
    try:
        return answer(LONGEST_S if left_s is None else min(LONGEST_S, left_s))
    except (StateError, ValueError) as error:
        context.abort(code_of(error), str(error))
