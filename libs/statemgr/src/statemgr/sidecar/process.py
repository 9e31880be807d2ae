"""The process of a state manager: its signals."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

EXIT_SECOND_SIGNAL = 130
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """The first SIGTERM or SIGINT asks to stop, the second ends the process at once. To be made in the main thread.

    Attributes:
        asked: set by the first.
    """

    def __init__(self) -> None:
        self.asked = threading.Event()
        for number in SIGNALS:
            signal.signal(number, self._receive)

    def _receive(self, _signal: int, _frame: FrameType | None) -> None:
        if self.asked.is_set():
            os._exit(EXIT_SECOND_SIGNAL)
        self.asked.set()
