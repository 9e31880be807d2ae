"""Lines of a pod: those of its processes, and its own."""

from __future__ import annotations

import json

from statemgr.log_format import LogFormat
from towpath.launch.lines import POD, as_line


def test_as_text_each_line_names_who_said_it() -> None:
    assert as_line("stage", b"2026 [info] owns", LogFormat.TEXT) == b"stage    | 2026 [info] owns\n"


def test_as_json_an_object_stays_as_it_is() -> None:
    said = b'{"event": "owns", "task": "count/3"}'
    assert as_line("stage", said, LogFormat.JSON) == said + b"\n"


def test_as_json_any_other_line_becomes_one() -> None:
    own = json.loads(as_line(POD, b"asked to stop", LogFormat.JSON))
    assert (own["event"], own["level"], own["part"]) == ("asked to stop", "info", "pod")
    other = json.loads(as_line("stage", b"error: \xff wrong", LogFormat.JSON))
    assert (other["level"], other["part"]) == ("warning", "stage")
    assert other["event"] == "error: \N{REPLACEMENT CHARACTER} wrong"
    assert other["timestamp"].endswith("Z")
