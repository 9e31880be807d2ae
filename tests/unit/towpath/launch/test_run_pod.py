"""What a pod tells the coordinator."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.half_answer import half_answer
from towpath.launch.run_pod import PodSettings, _report


def settings(coordinator: str) -> PodSettings:
    return PodSettings("queries.key_count", "count", coordinator, "count-0", "b:9092", Path("state"), "h", None, 60.0)


def test_a_coordinator_that_is_killed_while_it_answers_does_not_end_the_pod(capfd: pytest.CaptureFixture[str]) -> None:
    with half_answer() as url:
        _report(settings(url))
    assert (
        "the death of the stage could not be reported, its silence will tell: IncompleteRead" in capfd.readouterr().out
    )


def test_a_coordinator_that_is_away_does_not_end_the_pod(capfd: pytest.CaptureFixture[str]) -> None:
    _report(settings("http://127.0.0.1:1"))
    assert "could not be reported" in capfd.readouterr().out
