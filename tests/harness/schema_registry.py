"""A small schema registry over HTTP, in the place of the service that users run; it can be stopped and started."""

from __future__ import annotations

import base64
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

Answer = tuple[int, Any]

NO_SUBJECT: Answer = (404, {"error_code": 40401, "message": "Subject not found."})
NO_VERSION: Answer = (404, {"error_code": 40402, "message": "Version not found."})
NO_SCHEMA: Answer = (404, {"error_code": 40403, "message": "Schema not found"})


class SchemaRegistry:
    """Keeps schemas in memory, through stops and starts.

    Attributes:
        schemas: id → schema as it was registered.
        versions: subject → ids, the first version first.
        asked: method and path of all requests so far.
        answer: what is answered to everything instead, where it is set: status and body.
        user_info: ``user:password`` without which nobody is answered.
    """

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.versions: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.answer: Answer | None = None
        self.user_info: str | None = None
        self._port = 0
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """Where it listens, or will again."""
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Listen, at the same port as before."""
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.reply({})

            def do_POST(self) -> None:
                self.reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def reply(self, body: dict[str, Any]) -> None:
                registry.asked.append(f"{self.command} {self.path}")
                status, found = registry.reply(self.command, self.path, body, self.headers.get("Authorization"))
                data = found if isinstance(found, bytes) else json.dumps(found).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._server.daemon_threads = True
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        """Listen no more; connections that are there end with their request."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def register(self, subject: str, schema: str, kind: str = "AVRO", references: Any = ()) -> int:
        """Add a schema, as somebody else's producer does; gives its id."""
        text = {"schema": schema, "schemaType": kind, "references": list(references)}
        return self._register(subject, text)[1]["id"]

    def reply(self, method: str, path: str, body: dict[str, Any], authorization: str | None) -> Answer:
        """What is answered to a request."""
        if self.answer is not None:
            return self.answer
        if self.user_info is not None and authorization != _basic(self.user_info):
            return 401, {"error_code": 40101, "message": "Unauthorized"}
        at = unquote(urlsplit(path).path)
        if at == "/schemas/types":
            return 200, ["AVRO", "PROTOBUF"]
        if found := re.fullmatch(r"/schemas/ids/(\d+)", at):
            schema = self.schemas.get(int(found[1]))
            return NO_SCHEMA if schema is None else (200, schema)
        if found := re.fullmatch(r"/subjects/([^/]+)/versions", at):
            return self._register(found[1], body)
        if (found := re.fullmatch(r"/subjects/([^/]+)", at)) and method == "POST":
            return self._look_up(found[1], body)
        if found := re.fullmatch(r"/subjects/([^/]+)/versions/(\w+)", at):
            return self._version(found[1], found[2])
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _register(self, subject: str, schema: dict[str, Any]) -> Answer:
        known = next((id_ for id_, each in self.schemas.items() if _same(each, schema)), None)
        id_ = known if known is not None else len(self.schemas) + 1
        self.schemas.setdefault(id_, schema)
        versions = self.versions.setdefault(subject, [])
        if id_ not in versions:
            versions.append(id_)
        return 200, {"id": id_}

    def _look_up(self, subject: str, schema: dict[str, Any]) -> Answer:
        if subject not in self.versions:
            return NO_SUBJECT
        for version, id_ in enumerate(self.versions[subject], start=1):
            if _same(self.schemas[id_], schema):
                return 200, {"subject": subject, "version": version, "id": id_, **self.schemas[id_]}
        return NO_SCHEMA

    def _version(self, subject: str, version: str) -> Answer:
        ids = self.versions.get(subject)
        if ids is None:
            return NO_SUBJECT
        number = len(ids) if version == "latest" else int(version)
        if not 1 <= number <= len(ids):
            return NO_VERSION
        return 200, {"subject": subject, "version": number, "id": ids[number - 1], **self.schemas[ids[number - 1]]}


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    keys = ("schema", "references")
    return [one.get(key) or [] for key in keys] == [other.get(key) or [] for key in keys] and one.get(
        "schemaType", "AVRO"
    ) == other.get("schemaType", "AVRO")


def _basic(user_info: str) -> str:
    return f"Basic {base64.b64encode(user_info.encode()).decode()}"
