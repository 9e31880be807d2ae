"""Kafka Streams beside the hand-over benchmark, where it can't be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.streams_restore import streams_restore


def test_without_java_it_is_left_out_and_one_line_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    said: list[str] = []
    assert streams_restore("127.0.0.1:1", tmp_path, said.append) is None
    (line,) = said
    assert line.startswith("Kafka Streams is left out: ")
    assert "JAVA_HOME" in line
    assert "\n" not in line
