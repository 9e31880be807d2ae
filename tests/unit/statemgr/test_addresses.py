"""Addresses as people write them."""

from __future__ import annotations

import socket
import threading

import pytest

from statemgr.addresses import Server, coordinator_url, parse_servers, unresolved


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        ("a:1,b.example:65535", [("a", 1), ("b.example", 65535)]),
        (" a:1 , b:2,", [("a", 1), ("b", 2)]),
        ("[::1]:9092", [("::1", 9092)]),
        ("[fe80::1%eth0]:9092,[::ffff:127.0.0.1]:1", [("fe80::1%eth0", 9092), ("::ffff:127.0.0.1", 1)]),
        ("SASL_SSL://kafka:9093", [("kafka", 9093)]),
    ],
)
def test_bootstrap_servers_are_a_list_of_host_and_port(text: str, servers: list[tuple[str, int]]) -> None:
    assert parse_servers(text) == servers


@pytest.mark.parametrize(
    "text", ["localhost", "a:1,b", ":9092", "a:", "a:port", "a:0", "a:65536", "[::1]", "a b:1", "http://a:1/x"]
)
def test_a_server_without_a_port_is_named_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"Kafka bootstrap server '.*': expected host:port, e\.g\. 127\.0\.0\.1:9092$"):
        parse_servers(text)


def test_an_ipv6_address_without_brackets_is_told_so() -> None:
    with pytest.raises(ValueError, match=r"server '::1:9092': .*; an IPv6 address is written in brackets"):
        parse_servers("::1:9092")


@pytest.mark.parametrize("text", ["", " ", ","])
def test_no_server_at_all_is_said_so(text: str) -> None:
    with pytest.raises(ValueError, match="no Kafka bootstrap servers are named"):
        parse_servers(text)


def test_names_that_do_not_resolve_are_found_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(host: str, *_: object, **__: object) -> None:
        if host == "nosuchhost":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    servers = [Server("kafka", 1), Server("nosuchhost", 2)]
    assert unresolved(servers, 5.0) == {"nosuchhost": "Name or service not known"}


def test_a_name_service_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answer.wait(5.0))
    assert unresolved([Server("kafka", 1)], 0.01) == {}
    answer.set()


def test_host_and_port_of_a_coordinator_mean_http() -> None:
    assert coordinator_url("127.0.0.1:7070") == "http://127.0.0.1:7070"
    assert coordinator_url("https://coordinator:7070") == "https://coordinator:7070"
    assert coordinator_url("") == ""
