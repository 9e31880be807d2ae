"""Free ports of the loopback interface."""

import errno
import random
import socket
from collections.abc import Collection

from towpath.broker.errors import BrokerError, PortTakenError

__all__ = ["HOST", "check_port", "free_port", "is_port_free"]

HOST = "127.0.0.1"
"""The only address the broker listens on."""

_RANGE = range(20_000, 32_768)
"""Where free ports are sought: below the ephemeral ports of Linux (from 32768) and macOS (from
49152). A client that keeps trying to reach a stopped broker on an ephemeral port can be given
that very port as its own, connect to itself, and block the restart."""

_TRIES = 200
"""Random ports that are tried: with half the range taken, all fail once in 10^60 times."""


def free_port(taken: Collection[int] = ()) -> int:
    """Finds a port on which nobody listens; it isn't reserved.

    Args:
        taken: Ports that the caller has other plans for.

    Raises:
        BrokerError: If none is found.
    """
    for port in random.sample(_RANGE, _TRIES):
        if port not in taken and is_port_free(port):
            return port
    raise BrokerError(f"no free port between {_RANGE.start} and {_RANGE.stop - 1} on {HOST}: name one")


def is_port_free(port: int) -> bool:
    """Tells whether a server could listen on a port now."""
    return _bind_error(port) is None


def check_port(port: int) -> None:
    """Checks that a server could listen on a port.

    Raises:
        PortTakenError: If not.
    """
    error = _bind_error(port)
    if error is None:
        return
    if error.errno == errno.EADDRINUSE:
        raise PortTakenError(
            f"port {port} on {HOST} is taken by another program: end it, name another port, or 0 for any free one"
        )
    raise PortTakenError(
        f"port {port} on {HOST} can't be used ({error.strerror}): name another one, or 0 for any free one"
    )


def _bind_error(port: int) -> OSError | None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the JVM does: a port whose last connections are still being forgotten is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            return error
    return None
