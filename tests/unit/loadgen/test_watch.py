"""A running load is looked at from outside; that a look finds no broker is not the load's end."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from loadgen import load
from loadgen.errors import UnreachableError
from loadgen.load import LoadSettings, Progress, Watch
from loadgen.options import SourceOptions
from loadgen.topics import Offsets


def test_a_look_that_finds_no_broker_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: Iterator[Offsets | None] = iter([{0: 3}, None, {0: 9}])

    def ends(*_: object) -> Offsets:
        answer = next(answers)
        if answer is None:
            raise UnreachableError("no answer")
        return answer

    monkeypatch.setattr(load, "end_offsets", ends)
    seen: list[Progress] = []
    watch = Watch(LoadSettings("b:1", "events", SourceOptions(events=10)), {0: 1}, seen.append, threading.Event())
    for _ in range(3):
        watch.report()
    assert [progress.events for progress in seen] == [2, 8]
