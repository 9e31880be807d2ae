"""How a process is asked to stop, also while its main thread is inside a call to Kafka or RocksDB.

Python runs a signal's handler in the main thread, between two of its own instructions: a commit that waits for a silent
broker holds it up for seconds. So the handler's wake-up byte is read by a thread of its own.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from types import FrameType

import structlog

log = structlog.get_logger()

EXIT_OVERDUE = 0
EXIT_SECOND_SIGNAL = 130

LEAVE_LIMIT_S = 9.0
"""A replica is gone 10 s after SIGTERM, or after its tasks were moved away, whatever broker and disk do; one second of
it for a busy machine.

Leaving late is no less safe than a crash: what is not committed is done again by the next owner.
"""

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """Reacts to SIGTERM and SIGINT: the first asks to stop; the second, or the limit after the first, ends the process.

    To be made in the main thread.

    Attributes:
        event: set by the first signal.
        at_work_on: what the process is doing, for the log line of a stop that is overdue.
    """

    def __init__(self) -> None:
        self.event = threading.Event()
        self.at_work_on: Callable[[], str] = lambda: "starting"
        self._leave_at_s = float("inf")
        self._received, self._wake_up = socket.socketpair()
        self._wake_up.setblocking(False)
        signal.set_wakeup_fd(self._wake_up.fileno())
        for number in SIGNALS:
            signal.signal(number, _leave_it_to_the_thread)
        threading.Thread(target=self._watch, name="signals", daemon=True).start()

    def draining(self) -> None:
        """Let the limit begin anew: the process is not stuck, it waits for its tasks to be moved away (R20)."""
        self._leave_at_s = time.monotonic() + LEAVE_LIMIT_S

    def _watch(self) -> None:
        self._await_signal(None)
        self.draining()
        self.event.set()
        while (left_s := self._leave_at_s - time.monotonic()) > 0:
            if self._await_signal(left_s):
                os._exit(EXIT_SECOND_SIGNAL)
        log.warning("left without the last commit; the next owner goes on from the one before", at=self.at_work_on())
        os._exit(EXIT_OVERDUE)

    def _await_signal(self, timeout_s: float | None) -> bool:
        """Whether one of the signals came before the time-out; other signals have no meaning here."""
        self._received.settimeout(timeout_s)
        try:
            while self._received.recv(1)[0] not in SIGNALS:
                pass
        except TimeoutError:
            return False
        return True


def _leave_it_to_the_thread(_signal: int, _frame: FrameType | None) -> None:
    pass
