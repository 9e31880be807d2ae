"""Follows the control log for a state manager, whatever becomes of the broker meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from statemgr.clock import Clock
from statemgr.control.log import ControlReader
from statemgr.control.view import ControlView
from statemgr.errors import (
    KafkaUnavailableError,
    RestoreStalledError,
    RetryableKafkaError,
    StateError,
    StopRequestedError,
    TopicMissingError,
)

log = structlog.get_logger()

POLL_S = 0.1
"""Longest wait for a record: new ones end it at once, so this is only how soon a stop is seen."""

RENEW_S = 0.5
"""Between two questions for the end of the log: a quarter of the lease of 2 s, for one small request each."""

RETRY_S = 0.5
"""Pause after the log could not be read."""

_TROUBLES = (KafkaUnavailableError, RestoreStalledError, RetryableKafkaError, TopicMissingError)


class ControlTail:
    """Reads on in the control log, by a thread of its own once it is started.

    Args:
        reader: reads the log; used by this alone.
        clock: time.
        changed: called after the log has said something new.
        stop: ends it.

    Attributes:
        failure: why the log can't be followed any more (R19), or an error that nobody foresaw; None: it is followed.
    """

    def __init__(self, reader: ControlReader, clock: Clock, changed: Callable[[], None], stop: threading.Event) -> None:
        self.failure: Exception | None = None
        self._reader = reader
        self._clock = clock
        self._changed = changed
        self._stop = stop
        self._trouble = ""
        self._thread = threading.Thread(target=self._run, name="control-log", daemon=True)

    @property
    def view(self) -> ControlView:
        """The log as read so far."""
        return self._reader.view

    @property
    def caught_up_s(self) -> float | None:
        """Monotonic time up to which nothing of the log is unread; None: it was not read to its end yet."""
        return self._reader.caught_up_s

    def start(self) -> None:
        """Begin to follow the log."""
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread to end, after ``stop`` was set; a silent broker may hold it up."""
        self._thread.join(timeout_s)

    def step(self) -> None:
        """Take what is new, and now and then make sure that it was all.

        Raises:
            CodecError: a record can't be understood; reading on would pass over a decision (R19).
        """
        try:
            news = self._reader.poll(POLL_S)
            if self._renewal_is_due():
                news += self._reader.read_to_end(stop=self._stop.is_set)
        except StopRequestedError:
            return
        except _TROUBLES as error:
            self._troubled(error)
            return
        if self._trouble:
            self._trouble = ""
            log.info("the control log can be read again")
        if news:
            self._changed()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self.step()
        except Exception as error:  # noqa: BLE001 - raised again by whoever looks at it
            self.failure = error
            self._changed()
        finally:
            self._reader.close()

    def _renewal_is_due(self) -> bool:
        seen_s = self.caught_up_s
        return seen_s is None or self._clock.monotonic_s() - seen_s >= RENEW_S

    def _troubled(self, error: StateError) -> None:
        """Say it once, and begin with a new consumer after a pause."""
        if str(error) != self._trouble:
            self._trouble = str(error)
            log.warning(f"the control log can't be read: {error}; answering by what was read before")
        self._reader.close()
        self._stop.wait(RETRY_S)
