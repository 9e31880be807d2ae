"""Who is answered by a state manager: every method of its descriptor, asked by strangers; and by former owners."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2

from statemgr.control.records import Layer
from statemgr.errors import HolderUnavailableError, SecurityError, StaleRequestError
from statemgr.migration.ports import Address
from statemgr.security import Credentials, Tls
from statemgr.sidecar.client import GrpcStateClient
from statemgr.sidecar.secured import open_channel
from statemgr.sidecar.server import SERVICE, StateServer
from statemgr.sidecar.v1 import statemgr_pb2 as pb
from tests.harness.certificates import Authority
from tests.unit.statemgr.sidecar.test_server import ADDRESS, TASK, TIMEOUT_S, service

TOKEN, FORMER = "0123456789abcdef", "fedcba9876543210"  # pragma: allowlist secret
METHODS = [
    f"/{service_.full_name}/{method.name}"
    for service_ in pb.DESCRIPTOR.services_by_name.values()
    for method in service_.methods
]
STRANGERS: dict[str, tuple[tuple[str, str | bytes], ...]] = {
    "no token": (),
    "a wrong token": (("authorization", f"Bearer {TOKEN[:-1]}x"),),
    "half a token": (("authorization", f"Bearer {TOKEN[:8]}"),),
    "another scheme": (("authorization", f"Basic {TOKEN}"),),
    "two headers": (("authorization", f"Bearer {TOKEN}"), ("authorization", "Bearer x")),
    "another header": (("token", TOKEN),),
}

Serve = Callable[[Credentials], StateServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    started: list[StateServer] = []

    def start(credentials: Credentials) -> StateServer:
        started.append(StateServer(service(), credentials=credentials))
        started[-1].start()
        return started[-1]

    yield start
    for server in started:
        server.stop(0.0)


def code_of(channel: grpc.Channel, method: str, metadata: Any = (), message: bytes = b"") -> grpc.StatusCode:
    """Status of a call by raw bytes."""
    try:
        channel.unary_unary(method)(message, metadata=metadata, timeout=TIMEOUT_S)
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def look_up(port: int, credentials: Credentials, address: Address = ADDRESS) -> tuple:
    client = GrpcStateClient(lambda _layer: f"127.0.0.1:{port}", credentials)
    try:
        return client.look_up(address, 4, [b"\x01aaa"], TIMEOUT_S).result().found
    finally:
        client.close()


def test_the_descriptor_lists_the_methods() -> None:
    assert f"/{SERVICE}/LookUp" in METHODS
    assert len(METHODS) >= 6


@pytest.mark.parametrize("metadata", STRANGERS.values(), ids=STRANGERS)
def test_every_method_refuses_a_stranger_before_it_looks_at_the_request(serve: Serve, metadata: Any) -> None:
    server = serve(Credentials((TOKEN,)))
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        for method in (*METHODS, "/no.such.Service/Method"):
            assert code_of(channel, method, metadata, b"\xff\xff") == grpc.StatusCode.UNAUTHENTICATED, method


def test_with_the_token_every_method_looks_at_the_request(serve: Serve) -> None:
    server = serve(Credentials((TOKEN,)))
    metadata = (("authorization", f"Bearer {TOKEN}"),)
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        for method in METHODS:
            assert code_of(channel, method, metadata) != grpc.StatusCode.UNAUTHENTICATED, method
        assert code_of(channel, "/no.such.Service/Method", metadata) == grpc.StatusCode.UNIMPLEMENTED


def test_probes_need_no_token(serve: Serve) -> None:
    server = serve(Credentials((TOKEN,)))
    message = health_pb2.HealthCheckRequest(service=SERVICE).SerializeToString()
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        assert code_of(channel, "/grpc.health.v1.Health/Check", (), message) == grpc.StatusCode.OK


def test_the_client_shows_its_token_and_a_former_one_is_taken_while_it_is_listed(serve: Serve) -> None:
    server = serve(Credentials((TOKEN, FORMER)))
    assert look_up(server.port, Credentials((TOKEN,))) == (b"1",)
    assert look_up(server.port, Credentials((FORMER,))) == (b"1",)
    with pytest.raises(HolderUnavailableError, match="needs the TOWPATH_TOKEN_FILE of the state manager") as refused:
        look_up(server.port, Credentials(("x" * 16,)))
    assert TOKEN not in str(refused.value)


def test_outside_loopback_a_state_manager_without_credentials_can_not_be_made() -> None:
    with pytest.raises(SecurityError, match=r"the state manager would listen at 0\.0\.0\.0"):
        StateServer(service(), "0.0.0.0")
    server = StateServer(service(), "0.0.0.0", credentials=Credentials((TOKEN,)))
    server.stop(0.0)


# --- certificates ---


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ours")


@pytest.fixture
def tls(authority: Authority) -> Tls:
    return authority.issue("service", "127.0.0.1")


def strangers(directory: Path, known: Tls) -> dict[str, Tls]:
    """Certificates that are not good enough, however the stranger came by the authority's own."""
    other = Authority(directory / "theirs").issue("stranger", "127.0.0.1")
    return {"of another authority": replace(other, ca=known.ca)}


def test_with_certificates_on_both_sides_a_request_is_answered(serve: Serve, tls: Tls) -> None:
    server = serve(Credentials(tls=tls))
    assert look_up(server.port, Credentials(tls=tls)) == (b"1",)


def test_every_method_refuses_a_certificate_of_another_authority_or_none(
    serve: Serve, tls: Tls, tmp_path: Path
) -> None:
    server = serve(Credentials(tls=tls))
    where = f"127.0.0.1:{server.port}"
    theirs = next(iter(strangers(tmp_path, tls).values()))
    without = grpc.ssl_channel_credentials(tls.ca.read_bytes())
    channels = [open_channel(where, Credentials(tls=theirs)), grpc.secure_channel(where, without)]
    channels.append(grpc.insecure_channel(where))
    for channel in channels:
        with channel:
            for method in (*METHODS, "/grpc.health.v1.Health/Check"):
                assert code_of(channel, method) == grpc.StatusCode.UNAVAILABLE, method


def test_a_client_takes_no_state_manager_with_a_certificate_of_another_authority_or_name(
    serve: Serve, authority: Authority, tls: Tls, tmp_path: Path
) -> None:
    for wrong in (Authority(tmp_path / "theirs").issue("x", "127.0.0.1"), authority.issue("y", "elsewhere")):
        server = serve(Credentials(tls=wrong))
        with pytest.raises(HolderUnavailableError):
            look_up(server.port, Credentials(tls=tls))


def test_one_name_may_be_in_the_certificates_of_all(serve: Serve, authority: Authority) -> None:
    named = replace(authority.issue("all", "services.towpath"), name="services.towpath")
    server = serve(Credentials(tls=named))
    assert look_up(server.port, Credentials(tls=named)) == (b"1",)


def test_with_both_a_caller_needs_both(serve: Serve, tls: Tls) -> None:
    server = serve(Credentials((TOKEN,), tls))
    assert look_up(server.port, Credentials((TOKEN,), tls)) == (b"1",)
    with pytest.raises(HolderUnavailableError, match="token is missing or wrong"):
        look_up(server.port, Credentials(tls=tls))
    with pytest.raises(HolderUnavailableError):
        look_up(server.port, Credentials((TOKEN,)))


def test_certificates_that_have_gone_are_an_answer_that_does_not_come(tls: Tls) -> None:
    tls.key.unlink()
    with pytest.raises(HolderUnavailableError, match="can't be asked: TLS can't be set up"):
        look_up(1, Credentials(tls=tls))


# --- owners of older epochs ---


def test_an_owner_of_an_older_epoch_is_refused_though_it_has_the_credentials(serve: Serve) -> None:
    """R8: the log gives the task to b under epoch 2; whoever owned it under 1 has lost it."""
    credentials = Credentials((TOKEN,))
    server = serve(credentials)
    zombie = Address(TASK, Layer("a", 1), 1)
    metadata = (("authorization", f"Bearer {TOKEN}"),)
    address = pb.Address(stage=TASK.stage, partition=TASK.partition, holder="a", epoch=1, target=1, at_least=-1)
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        for name in ("Describe", "LookUp", "Hot", "Bins", "Filter"):
            message = getattr(pb, f"{name}Request")(address=address).SerializeToString()
            code = code_of(channel, f"/{SERVICE}/{name}", metadata, message)
            assert code == grpc.StatusCode.FAILED_PRECONDITION, name
    with pytest.raises(StaleRequestError, match="epoch 1 of count/3 is over: b owns it under epoch 2") as refused:
        look_up(server.port, credentials, zombie)
    assert not refused.value.later
