from __future__ import annotations

import threading

import pytest

from statemgr.kafka.deadline import within


def test_a_call_that_ends_in_time_is_simply_run() -> None:
    seen: list[int] = []
    within(10.0, lambda: seen.append(1))
    assert seen == [1]


def test_what_the_call_raises_is_raised() -> None:
    def fail() -> None:
        raise LookupError("no such group")

    with pytest.raises(LookupError, match="no such group"):
        within(10.0, fail)


def test_a_call_that_never_ends_is_given_up() -> None:
    never = threading.Event()
    with pytest.raises(TimeoutError):
        within(0.01, never.wait)
    never.set()
