from __future__ import annotations

import polars as pl
import pytest
import structlog
from structlog.testing import capture_logs

from statemgr.errors import KafkaUnavailableError
from towpath.errors import SettingsError
from towpath.launch.programs import EXPECTED_EXITS
from towpath.stage.exits import CRASH_PAUSE_S, EXIT_CRASHED, EXIT_OK, survive
from towpath.stage.signals import LEAVE_LIMIT_S


def raising(error: BaseException) -> int:
    raise error


@pytest.mark.parametrize("error", [ZeroDivisionError("by zero"), MemoryError(), pl.exceptions.PanicException("a bug")])
def test_an_unexpected_error_is_one_error_line_with_its_trace_and_a_status_of_its_own(error: BaseException) -> None:
    pauses: list[float] = []
    structlog.reset_defaults()
    with capture_logs() as lines:
        status = survive(lambda: raising(error), pauses.append)
    (line,) = lines
    assert status == EXIT_CRASHED
    assert (line["log_level"], line["kind"], line["exc_info"]) == ("error", type(error).__name__, True)
    assert line["event"].startswith("crashed: ")
    assert str(error) in line["event"]


def test_a_crash_is_followed_by_a_pause_so_that_restarts_are_no_busy_loop() -> None:
    pauses: list[float] = []
    survive(lambda: raising(ZeroDivisionError()), pauses.append)
    assert pauses == [CRASH_PAUSE_S]
    assert CRASH_PAUSE_S < LEAVE_LIMIT_S


def test_supervisors_start_a_crashed_replica_again() -> None:
    assert EXIT_CRASHED not in EXPECTED_EXITS


@pytest.mark.parametrize("error", [SettingsError("a setting"), KafkaUnavailableError("no answer"), SystemExit(0)])
def test_what_has_a_meaning_of_its_own_passes(error: BaseException) -> None:
    with pytest.raises(type(error)):
        survive(lambda: raising(error), lambda _: pytest.fail("paused"))


def test_a_run_without_trouble_gives_its_status() -> None:
    assert survive(lambda: EXIT_OK, lambda _: pytest.fail("paused")) == EXIT_OK
