"""Tells an application which certificate a caller has shown, in the words of ASGI's TLS extension."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


class PeerProtocol(H11Protocol):
    """HTTP/1.1 whose requests carry ``extensions["tls"]["client_cert_chain"]``: PEM text, verified, or nothing."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See :meth:`asyncio.BaseProtocol.connection_made`; TLS is agreed on by then."""
        super().connection_made(transport)
        connection: Any = transport.get_extra_info("ssl_object")
        if connection is None:
            return
        shown = connection.getpeercert(binary_form=True)
        chain = [] if shown is None else [ssl.DER_cert_to_PEM_cert(shown)]
        answer = self.app

        async def with_peer(scope: Any, receive: Any, send: Any) -> None:
            extensions = {**scope.get("extensions", {}), "tls": {"client_cert_chain": chain}}
            await answer({**scope, "extensions": extensions}, receive, send)

        self.app = with_peer
