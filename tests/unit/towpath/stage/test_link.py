"""The replica's line to its coordinator: it never waits, says the newest, survives silence, and says a last word."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue

import pytest
import structlog
from structlog.testing import capture_logs

from towpath.coordinator.messages import Heartbeat, HeartbeatAnswer
from towpath.errors import TowpathError
from towpath.stage import link as lines
from towpath.stage.link import HttpLink

SOON_S = 10.0
"""For what happens at once, on a busy machine."""


class Line:
    """What carries heartbeats: tells what came, and answers, fails or hangs."""

    def __init__(self) -> None:
        self.came: SimpleQueue[str] = SimpleQueue()
        self.error: Exception | None = None
        self.hangs = threading.Event()
        self.hangs.set()

    def __call__(self, beat: Heartbeat) -> HeartbeatAnswer:
        self.came.put(beat.incarnation)
        assert self.hangs.wait(SOON_S)
        if self.error is not None:
            raise self.error
        return HeartbeatAnswer(term=int(beat.incarnation))


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    """Heartbeats that nobody asks for never come."""
    monkeypatch.setattr(lines, "INTERVAL_S", 1000.0)
    monkeypatch.setattr(lines, "LEAST_INTERVAL_S", 0.001)
    return Line()


@pytest.fixture
def link(line: Line) -> Iterator[HttpLink]:
    made = HttpLink(line)
    yield made
    line.hangs.set()
    made.close()


def beat(number: int) -> Heartbeat:
    return Heartbeat(incarnation=str(number))


def heard(link: HttpLink, term: int) -> HeartbeatAnswer:
    """The answer to a heartbeat."""
    return wait_for(lambda: answer if (answer := link.heard()) is not None and answer.term == term else None)


def wait_for(look: Callable[[], HeartbeatAnswer | None]) -> HeartbeatAnswer:
    tick = threading.Event()
    for _ in range(int(SOON_S / 0.001)):
        found = look()
        if found is not None:
            return found
        tick.wait(0.001)
    raise AssertionError("no answer")


def test_what_somebody_waits_for_is_said_at_once_and_each_answer_is_heard_once(link: HttpLink, line: Line) -> None:
    for number in (1, 2, 3):
        link.say(beat(number), at_once=True)
        assert line.came.get(timeout=SOON_S) == str(number)
        assert heard(link, number).term == number
        assert link.heard() is None


def test_the_newest_is_said_when_the_line_is_free_again(link: HttpLink, line: Line) -> None:
    line.hangs.clear()
    link.say(beat(1), at_once=True)
    assert line.came.get(timeout=SOON_S) == "1"
    for number in (2, 3, 4):
        link.say(beat(number), at_once=True)
    line.hangs.set()
    assert line.came.get(timeout=SOON_S) == "4"
    assert heard(link, 4).term == 4


def test_a_coordinator_that_does_not_answer_is_named_once_and_asked_on(link: HttpLink, line: Line) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET))
    with capture_logs() as logs:
        line.error = TowpathError("connection refused")
        for number in (1, 2, 3):
            link.say(beat(number), at_once=True)
            assert line.came.get(timeout=SOON_S) == str(number)
        line.error = None
        link.say(beat(4), at_once=True)
        assert line.came.get(timeout=SOON_S) == "4"
        assert heard(link, 4).term == 4
        link.say(beat(5), at_once=True)
        assert heard(link, 5).term == 5
    assert [(entry["log_level"], entry.get("cause")) for entry in logs] == [
        ("warning", "connection refused"),
        ("info", None),
    ]


def test_the_last_word_is_still_said(line: Line) -> None:
    link = HttpLink(line)
    link.say(beat(1), at_once=True)
    assert line.came.get(timeout=SOON_S) == "1"
    link.say(beat(2))
    link.close()
    assert line.came.get(timeout=SOON_S) == "2"


def test_who_never_said_anything_has_no_last_word(line: Line) -> None:
    HttpLink(line).close()
    assert line.came.empty()


def test_closing_waits_for_no_coordinator_that_hangs(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LAST_WORD_S", 0.01)
    line.hangs.clear()
    link = HttpLink(line)
    link.say(beat(1), at_once=True)
    assert line.came.get(timeout=SOON_S) == "1"
    link.close()
    assert link._thread.is_alive()
    line.hangs.set()
    link._thread.join(SOON_S)
    assert not link._thread.is_alive()


def test_an_error_that_nobody_foresaw_is_raised_where_answers_are_heard(link: HttpLink, line: Line) -> None:
    line.error = ZeroDivisionError("a fault of the client")
    link.say(beat(1), at_once=True)
    assert line.came.get(timeout=SOON_S) == "1"
    with pytest.raises(ZeroDivisionError, match="a fault of the client"):
        wait_for(link.heard)
    link.close()
