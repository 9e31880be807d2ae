"""Who leads: the one coordinator that can write the control log.

::

    standing by ──▶ leading: init own transactional id, read the log to an end taken after it, write Leader(term + 1)
         ▲             │
         └─────────────┘ the producer is lost: a newer coordinator has taken over, or an outcome is not known

One that was superseded stands by as long as the newer one does the work. It leads again only after
:attr:`~towpath.coordinator.limits.Limits.reclaim_s`, and only if it is the one that replicas talk to; so two
coordinators, of which one is talked to, come to rest, whichever began last.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from statemgr.clock import Clock
from statemgr.control.log import ControlReader
from statemgr.control.records import Leader
from statemgr.control.view import ControlView
from statemgr.errors import KafkaUnavailableError
from statemgr.kafka.ports import Kafka
from towpath.coordinator.control_writer import ControlWriter
from towpath.coordinator.limits import Limits

log = structlog.get_logger()


class Leadership:
    """A coordinator's part in the control log: reading it always, writing it while it leads.

    Attributes:
        leading: whether it leads.
        term: of its own newest lead.
        problem: what keeps it from its work; None: nothing.
        writer: writes while it leads.
    """

    def __init__(self, kafka: Kafka, app: str, name: str, clock: Clock, limits: Limits) -> None:
        self.leading = False
        self.term = 0
        self.problem: str | None = "has not begun"
        self.writer = ControlWriter(kafka, app, name)
        self._kafka = kafka
        self._app = app
        self._name = name
        self._clock = clock
        self._limits = limits
        self._reader = self._make_reader()
        self._not_before_s = clock.monotonic_s()
        self._newest = 0
        self._newest_since_s = self._not_before_s

    @property
    def view(self) -> ControlView:
        """The log as read so far."""
        return self._reader.view

    @property
    def is_read_back(self) -> bool:
        """Whether the view holds all that was written from here: only then is the next epoch of a task known."""
        return self.view.next_offset > self.writer.written

    @property
    def superseded(self) -> bool:
        """Whether the log names a newer coordinator."""
        return self.view.term > self.term

    def take_over(self, stop: Callable[[], bool]) -> ControlReader:
        """Fence the others, read the log to its end, and say so; the reader is for :meth:`lead`.

        Raises:
            RetryableKafkaError, KafkaUnavailableError, RestoreStalledError, ProducerLostError: not possible now.
            CodecError: the log holds what can't be understood (R19).
            StopRequestedError: ``stop`` said so.
        """
        self.writer.take_over()
        reader = self._make_reader()
        try:
            reader.read_to_end(stop=stop)
            self.writer.write([Leader(reader.view.term + 1, self._name)])
        except BaseException:
            reader.close()
            raise
        return reader

    def lead(self, reader: ControlReader) -> None:
        """Go on with what was read while taking over."""
        self._reader.close()
        self._reader = reader
        self.leading, self.term, self.problem = True, reader.view.term + 1, None
        log.info("leads", app=self._app, term=self.term, tasks=len(self.view.tasks))

    def poll(self) -> bool:
        """Read what is new; False if Kafka does not answer."""
        try:
            self._reader.poll()
        except KafkaUnavailableError as error:
            self._reader.close()  # the next turn asks with a new client
            self.problem = str(error)
            return False
        if self.leading:
            self.problem = None
        if self.view.term > self._newest:
            self._newest, self._newest_since_s = self.view.term, self._clock.monotonic_s()
        return True

    def stand_down(self, cause: str) -> None:
        """Write no more; the log is read on."""
        if self.leading:
            log.warning("stands down and serves reads only; replicas go on by the log", cause=cause)
        self.leading = False
        self.problem = f"does not lead: {cause}"
        self._not_before_s = self._clock.monotonic_s() + self._limits.standby_s
        self.writer.close()

    def should_lead(self, now_s: float, *, talked_to: bool) -> bool:
        """Whether to try: soon if no newer coordinator has shown up, else late and only if replicas talk to us.

        One that has never led yet is the newest itself.
        """
        if now_s < self._not_before_s:
            return False
        if self.term == 0 or self.view.term <= self.term:
            return True
        return talked_to and now_s - self._newest_since_s >= self._limits.reclaim_s

    def close(self) -> None:
        """Free everything."""
        self.leading = False
        self._reader.close()
        self.writer.close()

    def _make_reader(self) -> ControlReader:
        return ControlReader(self._kafka, self._app, f"{self._name}-control", self._clock)
