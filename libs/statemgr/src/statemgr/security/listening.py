"""Where a service may listen: on loopback without credentials, elsewhere only with them, or by the operator's word."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from statemgr.errors import SecurityError
from statemgr.security.credentials import INSECURE, TLS_CERT, TOKEN_FILE, Credentials, read_credentials

LOOPBACK_NAME = "localhost"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address; a name other than ``localhost`` counts as one that others reach."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == LOOPBACK_NAME


def check_listening(host: str, credentials: Credentials, what: str) -> None:
    """Refuse to serve others who need not show anything.

    Args:
        host: address to listen at.
        credentials: what callers have to show.
        what: who listens, for the message.

    Raises:
        SecurityError: others reach the address, and nothing is demanded of them.
    """
    if is_loopback(host) or credentials.demanded or credentials.insecure:
        return
    raise SecurityError(
        f"{what} would listen at {host or 'all addresses'}, where others reach it, without credentials: name a file "
        f"with a token that all services share by {TOKEN_FILE}, or certificates by {TLS_CERT}, _KEY and _CA; or listen "
        f"at 127.0.0.1; {INSECURE}=true does without, for networks where everybody is trusted"
    )


def credentials_to_listen(host: str, what: str, environ: Mapping[str, str], log: Any) -> Credentials:
    """The credentials of a service that listens at an address; an operator who does without them is warned.

    Args:
        host: address to listen at.
        what: who listens.
        environ: names the credentials' files.
        log: has ``warning``.

    Raises:
        SecurityError: they are wrong, or missing where others reach the address.
    """
    credentials = read_credentials(environ)
    check_listening(host, credentials, what)
    if not (credentials.demanded or is_loopback(host)):
        log.warning(
            f"INSECURE: {what} listens at {host or 'all addresses'} and demands no credentials ({INSECURE}=true): "
            "whoever reaches it can move tasks and read state"
        )
    return credentials
