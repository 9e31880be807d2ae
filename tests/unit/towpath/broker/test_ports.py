"""Ports of the loopback interface."""

import socket
from collections.abc import Iterator

import pytest

from towpath.broker import PortTakenError
from towpath.broker.ports import HOST, check_port, free_port, is_port_free
from towpath.broker.startup import choose_ports
from towpath.broker.state import BrokerState


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server((HOST, 0)) as server:
        yield server.getsockname()[1]


def last_run(port: int, controller_port: int) -> BrokerState:
    return BrokerState(pid=None, created=0.0, port=port, controller_port=controller_port, started_at="", heap="512m")


def test_a_free_port_is_outside_the_range_of_outgoing_connections() -> None:
    ports = {free_port() for _ in range(20)}
    assert max(ports) < 32_768
    assert all(is_port_free(port) for port in ports)


def test_a_port_with_a_listener_is_not_free(listener: int) -> None:
    assert not is_port_free(listener)


def test_a_port_that_only_waits_for_old_connections_is_free() -> None:
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        client = socket.create_connection((HOST, port))
        accepted, _ = server.accept()
        accepted.close()  # the server's side closes first, and keeps the connection in TIME_WAIT
        client.close()
    assert is_port_free(port)


def test_a_taken_port_is_reported_with_the_remedy(listener: int) -> None:
    with pytest.raises(
        PortTakenError,
        match=rf"^port {listener} on 127\.0\.0\.1 is taken by another program: "
        r"end it, name another port, or 0 for any free one$",
    ):
        check_port(listener)


def test_a_requested_port_is_used_or_refused(listener: int) -> None:
    wanted = free_port()
    assert choose_ports(wanted, last_run(free_port(), 0))[0] == wanted
    with pytest.raises(PortTakenError):
        choose_ports(listener, None)


def test_without_a_request_the_last_ports_are_taken_again() -> None:
    port, controller_port = choose_ports(0, None)
    assert port != controller_port
    assert choose_ports(0, last_run(port, controller_port)) == (port, controller_port)


def test_without_a_request_a_taken_last_port_is_replaced(listener: int) -> None:
    port, controller_port = choose_ports(0, last_run(listener, listener))
    assert listener not in (port, controller_port)


def test_the_controller_never_gets_the_clients_port() -> None:
    wanted = free_port()
    assert choose_ports(wanted, last_run(free_port({wanted}), wanted))[1] != wanted
