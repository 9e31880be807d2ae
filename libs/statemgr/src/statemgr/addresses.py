"""Addresses as people write them: those of the brokers, and that of the coordinator."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterable
from typing import NamedTuple

from statemgr.errors import SecurityError

LOOK_UP_S = 0.5
"""For names that are looked up to explain an error: a name service answers in some 10 ms, one that is away never."""

_SERVER = re.compile(r"(?:\w+://)?(?:\[(?P<ipv6>[0-9A-Fa-f:.]+(?:%\w+)?)\]|(?P<host>[^\s:/\[\]]+)):(?P<port>\d{1,5})")
"""With the protocol before it that librdkafka also takes."""

_BARE_IPV6 = re.compile(r"[0-9A-Fa-f.]*(?::[0-9A-Fa-f.]*){2,}")


class Server(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int


def parse_servers(text: str) -> list[Server]:
    """Kafka bootstrap servers: ``host:port,host:port``, an IPv6 address in brackets.

    Raises:
        ValueError: there is none, or one is not of that form; one line that says how to write it.
    """
    servers = [_server(part.strip()) for part in text.split(",") if part.strip()]
    if not servers:
        raise ValueError("no Kafka bootstrap servers are named: expected host:port,…, e.g. 127.0.0.1:9092")
    return servers


def _server(text: str) -> Server:
    found = _SERVER.fullmatch(text)
    if found is None or not 0 < int(found["port"]) < 1 << 16:
        hint = "; an IPv6 address is written in brackets" if _BARE_IPV6.fullmatch(text) else ""
        raise ValueError(f"Kafka bootstrap server {text!r}: expected host:port, e.g. 127.0.0.1:9092{hint}")
    return Server(found["ipv6"] or found["host"], int(found["port"]))


def unresolved(servers: Iterable[Server], timeout_s: float = LOOK_UP_S) -> dict[str, str]:
    """Host → why its name does not resolve; those of which nothing is known after the time are not among them."""
    found: dict[str, str] = {}

    def look_up() -> None:
        for host, port in servers:
            try:
                socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError) as error:
                found[host] = getattr(error, "strerror", None) or str(error)

    thread = threading.Thread(target=look_up, name="look-up", daemon=True)
    thread.start()
    thread.join(timeout_s)
    return dict(found)


def coordinator_url(text: str, *, tls: bool = False) -> str:
    """URL of a coordinator: ``host:port`` alone means http, or https with TLS; empty: there is none.

    Raises:
        SecurityError: there are certificates, and the URL is of a connection without TLS.
    """
    if text and "://" not in text:
        return f"{'https' if tls else 'http'}://{text}"
    if tls and text.lower().startswith("http://"):
        raise SecurityError(f"{text} is a connection without TLS, and TLS is set up: write https://")
    return text
