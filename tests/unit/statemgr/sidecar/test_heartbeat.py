"""What a state manager tells the coordinator."""

from __future__ import annotations

import json
import threading
from queue import SimpleQueue

import pytest
from structlog.testing import capture_logs

from statemgr.security import Credentials
from statemgr.security.post import Poster, PostRefusedError
from statemgr.sidecar import heartbeat
from statemgr.sidecar.heartbeat import NOT_KNOWN, PATIENT_BEATS, TIMEOUT_S, Heartbeats
from tests.harness.half_answer import half_answer


class Line:
    """Takes what is sent, or fails."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict]] = []
        self.error: Exception | None = None

    def post(self, url: str, body: bytes) -> None:
        if self.error is not None:
            raise self.error
        self.sent.append((url, json.loads(body)))


def test_a_heartbeat_names_the_address():
    line = Line()
    Heartbeats("http://c:1/", "count-0", "h:5", line.post).beat()
    assert line.sent == [("http://c:1/holders/count-0", {"address": "h:5"})]


def test_a_coordinator_that_is_away_is_named_once():
    line = Line()
    beats = Heartbeats("http://c:1", "a", "h:5", line.post)
    line.error = ConnectionRefusedError("refused")
    with capture_logs() as said:
        for _ in range(3):
            beats.beat()
        line.error = None
        beats.beat()
    assert [each["event"] for each in said] == [
        "the coordinator at http://c:1/holders/a does not take heartbeats: refused",
        "the coordinator takes heartbeats again",
    ]
    assert len(line.sent) == 1


def test_a_coordinator_that_does_not_know_the_replica_yet_is_none_to_worry_about_unless_it_goes_on():
    line = Line()
    beats = Heartbeats("http://c:1", "a", "h:5", line.post)
    line.error = PostRefusedError(NOT_KNOWN, "no replica 'a' has joined")
    with capture_logs() as early:
        for _ in range(PATIENT_BEATS):
            beats.beat()
    with capture_logs() as late:
        beats.beat()
        beats.beat()
    assert early == []
    assert [each["event"] for each in late] == [
        "the coordinator at http://c:1/holders/a does not take heartbeats: status 404: no replica 'a' has joined"
    ]


def test_a_real_post_to_nobody_is_a_failure_and_nothing_more():
    with capture_logs() as said:
        Heartbeats("http://127.0.0.1:1", "a", "h:5", Poster(Credentials(), TIMEOUT_S)).beat()
    assert "refused" in said[0]["event"]


def test_a_coordinator_that_is_killed_while_it_answers_is_a_failure_and_nothing_more():
    with half_answer() as url, capture_logs() as said:
        Heartbeats(url, "a", "h:5", Poster(Credentials(), TIMEOUT_S)).beat()
    assert "does not take heartbeats: IncompleteRead" in said[0]["event"]


def test_an_error_that_nobody_foresaw_is_told_with_its_trace_and_heartbeats_go_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(heartbeat, "INTERVAL_S", 0.001)
    tried: SimpleQueue[str] = SimpleQueue()

    def post(url: str, body: bytes) -> None:
        tried.put(url)
        raise UnicodeError("label too long")

    stop = threading.Event()
    with capture_logs() as said:
        Heartbeats("http://c:1", "a", "h:5", post).start(stop)
        for _ in range(3):
            tried.get(timeout=10)
        stop.set()
    assert [each["event"] for each in said] == [
        "a heartbeat to http://c:1/holders/a was not sent: UnicodeError: label too long"
    ]
    assert isinstance(said[0]["exc_info"], UnicodeError)
