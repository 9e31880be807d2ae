"""One form for every line of the log, whoever writes it."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog

from statemgr.log_format import LogFormat, log_format
from statemgr.logs import configure_logging


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Logging is global: what a test sets up is put away."""
    root = logging.getLogger()
    handlers, level, config = root.handlers[:], root.level, structlog.get_config()
    yield
    root.handlers = handlers
    root.setLevel(level)
    structlog.configure(**config)


@pytest.fixture
def as_json(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Sets up the log, to be called in a test: what captures standard error begins anew behind all fixtures."""
    monkeypatch.setenv("TOWPATH_LOG_FORMAT", "json")
    return lambda: configure_logging(query="key_count", stage="count", replica="count-0")


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_line_is_one_object_with_who_says_it_and_what_it_is_about(
    as_json: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    as_json()
    structlog.get_logger().info("owns", task="count/3", epoch=2, complete=False)
    (line,) = lines(capsys)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "query": "key_count",
        "stage": "count",
        "replica": "count-0",
        "level": "info",
        "event": "owns",
        "task": "count/3",
        "epoch": 2,
        "complete": False,
    }


def test_the_standard_librarys_loggers_have_the_same_form(
    as_json: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    as_json()
    about = {"task": "count/3", "epoch": 2}
    logging.getLogger("statemgr.changelog").warning("%s@%d is no base", "count/3", 2, extra=about)
    logging.getLogger("statemgr.changelog").info("not shown")
    (line,) = lines(capsys)
    assert (line["event"], line["level"], line["logger"]) == ("count/3@2 is no base", "warning", "statemgr.changelog")
    assert (line["task"], line["epoch"], line["replica"]) == ("count/3", 2, "count-0")


def test_every_thread_says_who_it_is(as_json: Callable[[], None], capsys: pytest.CaptureFixture[str]) -> None:
    as_json()
    thread = threading.Thread(target=lambda: structlog.get_logger().warning("no answer", cause="x"))
    thread.start()
    thread.join()
    (line,) = lines(capsys)
    assert (line["stage"], line["replica"]) == ("count", "count-0")


def test_an_error_is_one_line_with_its_trace(as_json: Callable[[], None], capsys: pytest.CaptureFixture[str]) -> None:
    as_json()
    try:
        int("two\nlines")
    except ValueError:
        structlog.get_logger().error("crashed", exc_info=True)
    (line,) = lines(capsys)
    assert "ValueError: invalid literal" in line["exception"]


def test_what_json_cannot_say_is_said_in_words(as_json: Callable[[], None], capsys: pytest.CaptureFixture[str]) -> None:
    as_json()
    structlog.get_logger().info("odd", what=object, name=b"\xff")
    (line,) = lines(capsys)
    assert "object" in line["what"]


def test_what_a_line_says_itself_counts_more(as_json: Callable[[], None], capsys: pytest.CaptureFixture[str]) -> None:
    as_json()
    structlog.get_logger().warning("replica failed", stage="source", replica="source-1")
    (line,) = lines(capsys)
    assert (line["stage"], line["replica"]) == ("source", "source-1")


def test_by_default_lines_are_text(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("TOWPATH_LOG_FORMAT", raising=False)
    configure_logging(query="key_count", replica="count-0")
    structlog.get_logger().info("starting", http=8080)
    logging.getLogger("statemgr").warning("slow")
    said = capsys.readouterr().err.splitlines()
    assert "starting" in said[0]
    assert "http=8080" in said[0]
    assert "slow" in said[1]
    assert all("replica=count-0" in line for line in said)


def test_another_format_is_refused_with_those_that_there_are() -> None:
    assert log_format({}) is LogFormat.TEXT
    assert log_format({"TOWPATH_LOG_FORMAT": ""}) is LogFormat.TEXT
    with pytest.raises(ValueError, match=r"^TOWPATH_LOG_FORMAT=xml: there is text and json$"):
        log_format({"TOWPATH_LOG_FORMAT": "xml"})
