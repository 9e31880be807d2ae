"""Waiting for the outside world: every wait has a deadline, and says what it saw when that passes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

POLL_S = 0.05
"""Pause between two looks: small beside what is waited for (a start takes one to three seconds)."""

T = TypeVar("T")


def wait_for(what: str, look: Callable[[], T | None], timeout_s: float, seen: Callable[[], str] = lambda: "") -> T:
    """Look until there is an answer.

    Args:
        what: what is waited for, for the message.
        look: gives the answer, or None (or False) while there is none; may raise to end the wait.
        timeout_s: deadline.
        seen: describes what there is instead, once the deadline has passed.

    Raises:
        AssertionError: the deadline has passed; says what was waited for and what was seen.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        answer = look()
        if answer is not None and answer is not False:
            return answer
        if time.monotonic() >= deadline:
            raise AssertionError(f"{what}: not within {timeout_s:g} s. {seen()}")
        time.sleep(POLL_S)
