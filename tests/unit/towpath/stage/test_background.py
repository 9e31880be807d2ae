"""Work beside a replica's loop: results, errors, the end."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import pytest

from statemgr.errors import StoreWriteError
from statemgr.migration.ports import Pending
from towpath.stage.background import THREADS, After, Background, at_once

SOON_S = 10.0


def finished(pending: Pending[object]) -> None:
    """Wait for the end of what runs in a thread."""
    tick = threading.Event()
    for _ in range(int(SOON_S / 0.001)):
        if pending.done():
            return
        tick.wait(0.001)
    raise AssertionError("still at work")


def failing() -> None:
    raise StoreWriteError("disk full")


@pytest.mark.parametrize("in_threads", [True, False])
def test_results_and_errors_come_to_whoever_looks(in_threads: bool) -> None:
    background = Background("test")
    spawn = background if in_threads else at_once
    good, bad = spawn(lambda: 7), spawn(failing)
    for pending in (good, bad):
        finished(pending)
    assert good.result() == 7
    for _ in range(2):
        with pytest.raises(StoreWriteError, match="disk full"):
            bad.result()
    background.close()


def test_the_caller_goes_on_meanwhile_and_one_long_work_holds_up_no_other() -> None:
    background, go_on = Background("test"), threading.Event()
    assert THREADS > 1
    long = background(lambda: go_on.wait(SOON_S))
    short = background(lambda: "done")
    finished(short)
    assert not long.done()
    go_on.set()
    finished(long)
    assert long.result() is True
    background.close()


def test_closing_waits_for_nothing_tells_what_runs_and_begins_nothing_more() -> None:
    background, go_on, began = Background("test"), threading.Event(), threading.Event()

    def work() -> bool:
        began.set()
        return go_on.wait(SOON_S)

    running = [background(work) for _ in range(THREADS)]
    waiting = background(lambda: "never")
    assert began.wait(SOON_S)
    assert not background.is_closed()
    background.close()
    assert background.is_closed()
    assert waiting.done()
    with pytest.raises(CancelledError):
        waiting.result()
    go_on.set()
    for pending in running:
        finished(pending)


def test_in_the_call_of_a_driver_without_threads_an_interrupt_is_not_kept_for_later() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        at_once(interrupted)


def test_work_behind_others_begins_when_they_are_done_however_they_ended() -> None:
    ended = [Waiting(), Waiting()]
    after = After(ended, at_once, lambda: 7)
    for each in ended:
        assert not after.done()
        with pytest.raises(RuntimeError, match="before it began"):
            after.result()
        each.over = True
    assert after.done()
    assert after.result() == 7
    assert After([at_once(failing)], at_once, lambda: 8).result() == 8


class Waiting:
    """Work that ends when it is told to."""

    over = False

    def done(self) -> bool:
        return self.over

    def result(self) -> None:
        raise AssertionError("nobody asks")
