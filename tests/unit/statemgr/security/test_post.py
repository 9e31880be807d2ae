"""Posts of small processes: what is shown to whom."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from statemgr.security import Credentials
from statemgr.security.post import Poster, PostRefusedError
from tests.harness.serving import serving

TOKEN = "0123456789abcdef"


class Answers(HTTPServer):
    """Gives one answer to everybody, and notes what was shown."""

    def __init__(self) -> None:
        self.status, self.body, self.location = 200, b"", ""
        self.shown: list[str | None] = []
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    server: Answers

    def do_POST(self) -> None:
        self.server.shown.append(self.headers.get("Authorization"))
        self.send_response(self.server.status)
        self.send_header("Location", self.server.location)
        self.end_headers()
        self.wfile.write(self.server.body)

    do_GET = do_POST  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def answers() -> Iterator[Answers]:
    with serving(Answers()) as server:
        yield server


def post(server: Answers, credentials: Credentials) -> None:
    Poster(credentials, 5.0)(f"http://127.0.0.1:{server.server_port}/x", b"{}")


def test_the_token_is_shown(answers: Answers) -> None:
    post(answers, Credentials((TOKEN,)))
    post(answers, Credentials())
    assert answers.shown == [f"Bearer {TOKEN}", None]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"detail": "no such replica"}', "status 404: no such replica"),
        (b"<html>", "status 404"),
        (b"[" * 5000, "status 404"),
    ],
)
def test_a_refusal_has_its_status_and_the_reason_if_there_is_one(answers: Answers, body: bytes, said: str) -> None:
    answers.status, answers.body = 404, body
    with pytest.raises(PostRefusedError) as refused:
        post(answers, Credentials())
    assert (refused.value.status, str(refused.value)) == (404, said)


def test_a_token_does_not_follow_where_somebody_points(answers: Answers) -> None:
    answers.status, answers.location = 302, f"http://127.0.0.1:{answers.server_port}/elsewhere"
    with pytest.raises(PostRefusedError, match="status 302"):
        post(answers, Credentials((TOKEN,)))
    assert len(answers.shown) == 1
