"""The process of a state manager: its signals, its log."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from types import FrameType

import structlog

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


def configure_logging(**context: str) -> None:
    """One line an event on standard error, with ``context`` on each."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(**context)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
