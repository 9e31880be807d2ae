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

from collections.abc import Callable, Iterable
from dataclasses import replace

import structlog

from statemgr.clock import Clock
from statemgr.control.log import ControlReader
from statemgr.control.records import Leader
from statemgr.control.view import ControlView
from statemgr.errors import KafkaUnavailableError
from statemgr.kafka.ports import Kafka
from statemgr.types import TaskId
from towpath.coordinator.control_writer import ControlWriter
from towpath.coordinator.limits import Limits

log = structlog.get_logger()


class Leadership:
    """A coordinator's part in the control log: reading it always, writing it while it leads.

    What waits for Kafka (:meth:`take_over`, :meth:`read`, :meth:`close`) is done by one thread and changes nothing that
    others see; :meth:`lead`, :meth:`fold` and :meth:`stand_down` do, and wait for nothing.

    Attributes:
        view: the log as folded so far; replaced as a whole, never changed.
        leading: whether it leads.
        term: of its own newest lead.
        problem: what keeps it from its work; None: nothing.
        writer: writes while it leads.
    """

    def __init__(self, kafka: Kafka, app: str, name: str, clock: Clock, limits: Limits) -> None:
        self.view = ControlView()
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
        self._changed: dict[TaskId, None] = {}
        self._attempted = 0
        self._not_before_s = clock.monotonic_s()
        self._newest = 0
        self._newest_since_s = self._not_before_s

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
            self._attempted = reader.view.term + 1
            self.writer.write([Leader(self._attempted, self._name)])
        except BaseException:
            reader.close()
            raise
        self._reader.close()
        return reader

    def lead(self, reader: ControlReader) -> None:
        """Go on with what was read while taking over."""
        self._reader, self._changed = reader, {}
        self.view = _snapshot(ControlView(), reader.view, reader.view.tasks)
        self.leading, self.term, self.problem = True, reader.view.term + 1, None
        log.info("leads", app=self._app, term=self.term, tasks=len(self.view.tasks))

    def read(self) -> bool:
        """Read what is new, for :meth:`fold`; False if Kafka does not answer."""
        try:
            self._changed |= dict.fromkeys(self._reader.poll())
        except KafkaUnavailableError as error:
            self._reader.close()  # the next turn asks with a new client
            self.problem = str(error)
            return False
        return True

    def fold(self) -> None:
        """Let the view say what was read."""
        if self._reader.view.next_offset != self.view.next_offset:
            self.view, self._changed = _snapshot(self.view, self._reader.view, self._changed), {}
        if self.leading:
            self.problem = None
        if self.view.term > self._newest:
            self._newest, self._newest_since_s = self.view.term, self._clock.monotonic_s()

    def stand_down(self, cause: str) -> None:
        """Write no more; the log is read on. The writer is still to be closed."""
        if self.leading:
            log.warning("stands down and serves reads only; replicas go on by the log", cause=cause)
        self.leading = False
        self.problem = f"does not lead: {cause}"
        self._not_before_s = self._clock.monotonic_s() + self._limits.standby_s

    def should_lead(self, now_s: float, *, talked_to: bool) -> bool:
        """Whether to try: soon if no newer coordinator has shown up, else late and only if replicas talk to us.

        One that has never led yet is the newest itself; so is one whose own word is the newest in the log, though it
        never heard that it was written.
        """
        if now_s < self._not_before_s:
            return False
        if self.term == 0 or self.view.term <= self.term:
            return True
        if (self.view.term, self.view.leader) == (self._attempted, self._name):
            return True
        return talked_to and now_s - self._newest_since_s >= self._limits.reclaim_s

    def close(self) -> None:
        """Free everything."""
        self.leading = False
        self._reader.close()
        self.writer.close()

    def _make_reader(self) -> ControlReader:
        return ControlReader(self._kafka, self._app, f"{self._name}-control", self._clock)


def _snapshot(former: ControlView, read: ControlView, changed: Iterable[TaskId]) -> ControlView:
    """What was read, apart from its reader, which goes on; only tasks that changed since the former are copied."""
    tasks = former.tasks | {task: replace(read.of(task)) for task in changed}
    return replace(read, tasks=tasks, desired=dict(read.desired), fenced=dict(read.fenced))
