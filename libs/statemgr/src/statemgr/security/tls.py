"""TLS by the standard library, for HTTP both ways: both sides show a certificate of the application's authority."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from statemgr.errors import SecurityError


@dataclass(frozen=True)
class Tls:
    """Certificates of a service, as PEM files.

    Attributes:
        cert: its own certificate, with those between it and the authority.
        key: the private key of that.
        ca: certificates of the authority that has signed those of all services.
        name: which the certificates of all services carry, looked for instead of the host that is called; empty: the
            host's own name or address.
    """

    cert: Path
    key: Path
    ca: Path
    name: str = ""


class _Named(ssl.SSLContext):
    """Looks for one name in every certificate, whatever host is called."""

    expected = ""

    def wrap_socket(
        self,
        sock: socket.socket,
        server_side: bool = False,
        do_handshake_on_connect: bool = True,
        suppress_ragged_eofs: bool = True,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLSocket:
        """See :meth:`ssl.SSLContext.wrap_socket`."""
        name = self.expected or server_hostname
        return super().wrap_socket(sock, server_side, do_handshake_on_connect, suppress_ragged_eofs, name, session)


def client_context(tls: Tls) -> ssl.SSLContext:
    """For calling services: shows the certificate, and takes none that the authority has not signed.

    Raises:
        SecurityError: a file is no PEM file of its kind, or the key is another certificate's.
    """
    context = _Named(ssl.PROTOCOL_TLS_CLIENT)
    context.expected = tls.name
    return _loaded(context, tls)


def server_context(tls: Tls) -> ssl.SSLContext:
    """For being called: a certificate of another authority ends the connection; none is allowed by TLS itself.

    Health probes have no certificate: who needs one is decided by request.

    Raises:
        SecurityError: as :func:`client_context`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_OPTIONAL
    return _loaded(context, tls)


def _loaded(context: ssl.SSLContext, tls: Tls) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(tls.cert, tls.key, password=_no_password)
        context.load_verify_locations(tls.ca)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        cause = getattr(error, "reason", None) or error
        raise SecurityError(
            f"TLS can't be set up with {tls.cert}, {tls.key} and {tls.ca}: {cause}; they have to be PEM files, the key "
            "that of the certificate and without a password"
        ) from error
    return context


def _no_password() -> str:
    """An encrypted key would make OpenSSL ask at the terminal."""
    raise ValueError("the private key has a password")
