"""A state manager on the network: limits, deadlines, connections."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from statemgr.clock import SystemClock
from statemgr.control.records import Assigned, Layer, Manner, control_key, encode_control
from statemgr.control.view import ControlView
from statemgr.errors import HolderUnavailableError
from statemgr.migration.ports import Address
from statemgr.sidecar.client import GrpcStateClient
from statemgr.sidecar.readers import MemoryReaders
from statemgr.sidecar.server import SERVICE, StateServer
from statemgr.sidecar.service import StateService
from statemgr.sidecar.v1 import statemgr_pb2 as pb
from statemgr.sidecar.v1 import statemgr_pb2_grpc
from statemgr.store import MemoryBackend, StoreMeta
from statemgr.types import TaskId
from tests.harness.waiting import wait_for

TASK = TaskId("count", 3)
ADDRESS = Address(TASK, Layer("a", 1), 2)
TIMEOUT_S = 10.0


class Gate:
    """Holds up requests that wait for their owner to write, until it is opened."""

    def __init__(self) -> None:
        self.reached = threading.Semaphore(0)
        self.open = threading.Event()

    def __call__(self, _seconds: float) -> None:
        self.reached.release()
        self.open.wait(TIMEOUT_S)


def service(pause=None) -> StateService:
    backend = MemoryBackend()
    backend.open(TASK, 1).write([(b"\x01aaa", b"1")], StoreMeta("T", 4, 1, 1, None))
    view = ControlView()
    record = Assigned(*TASK, 2, "b", (), (Layer("a", 1),), Manner(), 1)
    view.apply(0, control_key(record), encode_control(record))
    return StateService(MemoryReaders(backend), lambda: view, SystemClock(), "a", pause=pause)


@pytest.fixture
def serve():
    """Starts servers."""
    started = []

    def start(state_service=None, port=0, **limits) -> StateServer:
        server = StateServer(state_service or service(), port=port, **limits)
        server.start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.stop(0.0)


@pytest.fixture
def connect():
    """Makes clients."""
    made = []

    def make(address_of) -> GrpcStateClient:
        made.append(GrpcStateClient(address_of))
        return made[-1]

    yield make
    for client in made:
        client.close()


def at(server: StateServer):
    return lambda _layer: f"127.0.0.1:{server.port}"


def closed_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def look_up(client, timeout_s=TIMEOUT_S, at_least=4):
    return client.look_up(ADDRESS, at_least, [b"\x01aaa"], timeout_s)


def test_more_requests_than_allowed_are_refused_at_once(serve, connect):
    gate = Gate()
    client = connect(at(serve(service(gate), threads=2, requests=2)))
    waiting = [look_up(client, at_least=5) for _ in range(2)]
    for _ in waiting:
        assert gate.reached.acquire(timeout=TIMEOUT_S)
    with pytest.raises(HolderUnavailableError, match=r"a at 127.*RPC limit"):
        look_up(client).result()
    assert not any(pending.done() for pending in waiting)
    gate.open.set()


def test_a_request_fails_at_its_deadline(serve, connect):
    gate = Gate()
    client = connect(at(serve(service(gate))))
    with pytest.raises(HolderUnavailableError, match="no answer from the state manager of a at 127"):
        look_up(client, timeout_s=0.05, at_least=5).result()
    gate.open.set()


def test_an_offset_that_the_owner_writes_in_time_is_waited_for(serve, connect):
    backend = MemoryBackend()
    store = backend.open(TASK, 1)
    view = ControlView()
    record = Assigned(*TASK, 2, "b", (), (Layer("a", 1),), Manner(), 1)
    view.apply(0, control_key(record), encode_control(record))
    writes = iter((4, 5))

    def write_on(_seconds: float) -> None:
        store.write([(b"\x01aaa", b"1")], StoreMeta("T", next(writes), 1, 1, None))

    behind = StateService(MemoryReaders(backend), lambda: view, SystemClock(), "a", pause=write_on)
    assert look_up(connect(at(serve(behind))), at_least=5).result().offset == 5


def test_a_refused_connection_is_known_at_once(connect):
    client = connect(lambda _layer: f"127.0.0.1:{closed_port()}")
    begin = time.monotonic()
    with pytest.raises(HolderUnavailableError, match="no answer from the state manager of a at 127"):
        look_up(client).result()
    assert time.monotonic() - begin < TIMEOUT_S / 2


@pytest.mark.slow
def test_a_state_manager_that_comes_back_at_its_address_is_found_again_soon(serve, connect):
    port = closed_port()
    client = connect(lambda _layer: f"127.0.0.1:{port}")

    def answered() -> bool:
        try:
            return look_up(client).result().found == (b"1",)
        except HolderUnavailableError:
            return False

    with pytest.raises(AssertionError):
        wait_for("nobody answers", answered, 1.5)
    serve(port=port)
    wait_for("the state manager is found", answered, 1.0)


def test_a_state_manager_that_moves_is_asked_at_its_new_address(serve, connect):
    first, second = serve(), serve()
    place = {"a": first}
    client = connect(lambda layer: f"127.0.0.1:{place[layer.holder].port}")
    assert look_up(client).result().found == (b"1",)
    place["a"] = second
    first.stop(0.0)
    assert look_up(client).result().found == (b"1",)


def test_what_is_pending_fails_when_the_client_is_closed(serve, connect):
    gate = Gate()
    client = connect(at(serve(service(gate))))
    pending = look_up(client, at_least=5)
    assert gate.reached.acquire(timeout=TIMEOUT_S)
    client.close()
    with pytest.raises(HolderUnavailableError, match="closed"):
        pending.result()
    gate.open.set()


def test_a_look_up_of_more_keys_than_a_message_holds_is_answered_in_part(serve, connect):
    client = connect(at(serve()))
    keys = [b"\x01" + b"%06d" % n * 100 for n in range(10_000)]
    answer = client.look_up(ADDRESS, 4, keys, TIMEOUT_S).result()
    assert 0 < len(answer.found) < len(keys)


@pytest.mark.slow
def test_many_threads_get_their_own_answers(serve, connect):
    client = connect(at(serve()))
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: look_up(client).result().found, range(40)))
    assert answers == [(b"1",)] * 40


def test_a_port_in_use_is_an_error_that_names_it(serve):
    port = serve().port
    with pytest.raises(OSError, match=f"can't listen at 127.0.0.1:{port}: is the port in use"):
        StateServer(service(), port=port)


def test_health_is_of_the_process_and_of_the_service(serve):
    server = serve()
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)

        def status(name: str) -> int:
            return stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=TIMEOUT_S).status

        serving, not_serving = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
        assert (status(""), status(SERVICE)) == (serving, not_serving)
        server.set_ready(True)
        assert status(SERVICE) == serving


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        ("LookUp", pb.LookUpRequest(keys=[b"k"])),
        ("Bins", pb.BinsRequest(address=pb.Address(stage="count", holder="a"), first=3, last=256)),
        ("Bins", pb.BinsRequest(address=pb.Address(stage="count", holder="a"), first=3, last=2)),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_as_such(serve, method, request_):
    with grpc.insecure_channel(f"127.0.0.1:{serve().port}") as channel:
        with pytest.raises(grpc.RpcError) as refused:
            getattr(statemgr_pb2_grpc.StateManagerStub(channel), method)(request_, timeout=TIMEOUT_S)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
