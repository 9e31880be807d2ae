"""When a process is given up: by what it says itself, or by supervisord."""

from __future__ import annotations

import pytest

from towpath.launch import ProcessState


@pytest.mark.parametrize(
    ("state", "exit_status", "given_up"),
    [
        ("RUNNING", 0, False),
        ("EXITED", 0, True),
        ("EXITED", 1, True),
        ("EXITED", 2, True),
        ("EXITED", -1, False),
        ("EXITED", 137, False),
        ("BACKOFF", 1, False),
        ("FATAL", -1, True),
    ],
)
def test_a_crash_is_started_again_and_a_decision_is_not(state: str, exit_status: int, given_up: bool) -> None:
    assert ProcessState("count-0", state, 0, exit_status).given_up is given_up
