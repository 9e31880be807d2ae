"""gRPC between state managers and those who ask them, with the application's credentials."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc

from statemgr.security import Credentials, Tls
from statemgr.security.tls import client_context, server_context
from statemgr.sidecar.channels import CLIENT_OPTIONS

OPEN_METHODS = "/grpc.health.v1.Health/"
"""How the names of those begin that a probe may call without a token; it learns nothing but whether this serves."""

HEADER = "authorization"

_REFUSAL = "the token is missing or wrong: this process needs the TOWPATH_TOKEN_FILE of the state manager"


class TokenCheck(grpc.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs alone
    """Refuses every call without a right token before its method is looked up, those to come included.

    Args:
        credentials: say which tokens are right.
    """

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._refusal = grpc.unary_unary_rpc_method_handler(_refuse)

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Any],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """See :meth:`grpc.ServerInterceptor.intercept_service`."""
        given = [value for name, value in handler_call_details.invocation_metadata if name == HEADER]
        shown = given[0] if len(given) == 1 and isinstance(given[0], str) else ""
        if handler_call_details.method.startswith(OPEN_METHODS) or self._credentials.admits(shown):
            return continuation(handler_call_details)
        return self._refusal


def listen(server: grpc.Server, where: str, credentials: Credentials) -> int:
    """Listen at an address, with TLS if there are certificates; then every caller needs one, probes, too.

    Returns:
        The port; 0: it can't listen there.

    Raises:
        SecurityError: TLS can't be set up.
    """
    try:
        if credentials.tls is None:
            return int(server.add_insecure_port(where))
        server_context(credentials.tls)  # gRPC itself would only say that it failed
        key, chain, authority = _pem(credentials.tls)
        secured = grpc.ssl_server_credentials([(key, chain)], authority, require_client_auth=True)
        return int(server.add_secure_port(where, secured))
    except RuntimeError:
        return 0


def open_channel(address: str, credentials: Credentials) -> grpc.Channel:
    """A channel to a state manager.

    Raises:
        SecurityError: TLS can't be set up.
    """
    if credentials.tls is None:
        return grpc.insecure_channel(address, options=CLIENT_OPTIONS)
    client_context(credentials.tls)
    key, chain, authority = _pem(credentials.tls)
    named = (("grpc.ssl_target_name_override", credentials.tls.name),) if credentials.tls.name else ()
    secured = grpc.ssl_channel_credentials(authority, key, chain)
    return grpc.secure_channel(address, secured, options=(*CLIENT_OPTIONS, *named))


def call_metadata(credentials: Credentials) -> tuple[tuple[str, str], ...]:
    """What is sent with every call."""
    return ((HEADER, credentials.authorization),) if credentials.authorization else ()


def _refuse(_request: object, context: grpc.ServicerContext) -> None:
    context.abort(grpc.StatusCode.UNAUTHENTICATED, _REFUSAL)


def _pem(tls: Tls) -> tuple[bytes, bytes, bytes]:
    return tls.key.read_bytes(), tls.cert.read_bytes(), tls.ca.read_bytes()
