"""What is read off the words of those who bring state."""

from __future__ import annotations

from typing import Any

import pytest

from towpath.coordinator.messages import Heartbeat
from towpath.coordinator.progress import seconds_left


@pytest.mark.parametrize(
    ("progress", "left_s"),
    [
        ({"bins_done": 128, "bins_total": 256, "bytes": 100, "rate": 50.0}, 2.0),
        ({"bins_done": 64, "bins_total": 256, "bytes": 32_000_000, "rate": 8_000_000.0}, 12.0),
        ({"records": 1000, "remaining": 3000, "bytes": 100, "rate": 50.0}, 6.0),
        ({"records": 1000, "remaining": 0, "bytes": 100, "rate": 50.0}, 0.0),
        ({}, None),
        ({"bins_done": 0, "bins_total": 256, "bytes": 0, "rate": 5.0}, None),
        ({"bins_done": 64, "bins_total": 256, "bytes": 100, "rate": 0.0}, None),
        ({"records": 0, "remaining": 3000, "bytes": 0, "rate": 5.0}, None),
        ({"phase": "reading the changelog"}, None),
        ({"bins_total": None}, None),
        ({"bins_done": 1, "bins_total": None, "bytes": 5, "rate": 5.0}, None),
        ({"bins_done": "1", "bins_total": "256", "bytes": "100", "rate": "50"}, None),
        ({"bins_done": [1], "bins_total": {}, "bytes": True, "rate": None}, None),
        ({"records": 1, "remaining": 10**400, "bytes": 100, "rate": 50.0}, None),
        ({"records": 1, "remaining": 1, "bytes": 1e308, "rate": 1e-300}, None),
        ({"records": float("nan"), "remaining": float("inf"), "bytes": 100, "rate": 50.0}, None),
    ],
)
def test_time_left_is_that_of_the_rest_at_the_present_rate_and_never_guessed_from_nothing(
    progress: dict[str, Any], left_s: float | None
) -> None:
    assert seconds_left(progress) == left_s


def test_a_heartbeat_of_a_replica_that_knows_of_no_copies_is_understood() -> None:
    said = '{"incarnation": "1", "tasks": [{"partition": 0, "epoch": 2, "state": "opening", "complete": false}]}'
    beat = Heartbeat.model_validate_json(said)
    assert (beat.copies, beat.tasks[0].migration, beat.tasks[0].lag) == ([], None, None)


def test_a_heartbeat_of_a_later_version_is_understood() -> None:
    beat = Heartbeat.model_validate_json('{"incarnation": "1", "copies": [], "moods": ["fine"]}')
    assert beat.incarnation == "1"
