"""Runs an agent on batches: event by event, and finished with the last one when ``process`` returns.

::

    rows ──▶ queue ──▶ agent (a coroutine that lives as long as the operator) ──▶ state, records
                          │ asks for the next event: the one before is done, its effects count
                          └ raises: its effects are dropped, the row is a dead letter, the agent begins anew

The coroutine runs on an event loop of its own, in the caller's thread, so it may await whatever asyncio offers. Between
batches it is suspended where it asked for an event. An agent that does not finish an event in time is named by an
error; code that blocks without ``await`` can't be interrupted and shows as a stage that does not answer.

Measured with one table update and one record sent per event: 110,000 events per CPU-second.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import polars as pl

from towpath.faust.agents import Agent
from towpath.faust.driving import Asked, UntilAsked
from towpath.faust.errors import AgentStuckError, FaustProgramError, ValidationError
from towpath.faust.runtime import Incoming, Outgoing, Runtime, Turn
from towpath.faust.serializers import Serde
from towpath.faust.streams import Stream
from towpath.faust.topics import Event
from towpath.query.plan import BYTES_SCHEMA, KEY_COLUMN, PARTITION, VALUE_COLUMN, OperatorContext

FRAME_SCHEMA = {PARTITION: pl.Int32(), **BYTES_SCHEMA}


class AgentOperator:
    """One agent of a stage."""

    def __init__(
        self,
        agent: Agent,
        key: Serde,
        topics: frozenset[str],
        tables: frozenset[str],
        runtime: Runtime,
        timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make the operator; the agent starts with its first event.

        Args:
            agent: what to run.
            key: how keys are read (those of a grouped stream are texts).
            topics: what it may write.
            tables: what it may change.
            runtime: the application's.
            timeout_s: longest time for one event.
            clock: monotonic seconds.
        """
        self._agent = agent
        self._topics = topics
        self._tables = tables
        self._runtime = runtime
        self._timeout_s = timeout_s
        self._clock = clock
        self._feed = _Feed(key, agent.topic.value)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: Coroutine[Any, Any, None] | None = None

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        """Handle every row; what is sent goes out by ``context.emit``.

        Raises:
            AgentStuckError: the agent did not finish an event in time.
            FaustProgramError: the agent returns without asking for an event.
        """
        turn = Turn(self._agent.name, context, self._topics, self._tables)
        rows = frame.select(PARTITION, KEY_COLUMN, VALUE_COLUMN).rows()
        self._feed.supply(deque(Incoming(*row) for row in rows), turn)
        before = self._runtime.begin(turn)
        try:
            while self._feed.left:
                self._run(turn)
        finally:
            self._runtime.begin(before)
        for topic in dict.fromkeys(record.topic for record in turn.sent):
            context.emit(topic, _frame([record for record in turn.sent if record.topic == topic]))
        return _frame([])

    def close(self) -> None:
        """End the agent and its event loop."""
        if self._running is not None:
            with contextlib.suppress(Exception):  # what the user's clean-up raises interests nobody any more
                self._running.close()
            self._running = None
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    def __del__(self) -> None:
        # The runtime makes operators anew after a loss of ownership and has no other word for their end.
        self.close()

    def _run(self, turn: Turn) -> None:
        """Run the agent until it has asked for more than there is, or has ended."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        if self._running is None:
            self._running = self._agent.run(Stream(self._feed))
        left = self._feed.left
        try:
            ended = self._loop.run_until_complete(self._drive(self._running, turn))
        except Exception as error:
            self._running = None
            if turn.event is None or isinstance(error, AgentStuckError):
                raise
            self._reject(turn, turn.event, error)
        else:
            if not ended:
                return
            self._running = None
            turn.keep()
            if self._feed.left == left:
                raise FaustProgramError(
                    f"agent {self._agent.name!r} returned without asking for an event: iterate over its stream"
                )

    async def _drive(self, running: Coroutine[Any, Any, None], turn: Turn) -> bool:
        """Whether the agent ended; else it waits for an event."""
        watchdog = _Watchdog(turn, self._timeout_s, self._clock)
        try:
            return await UntilAsked(running)
        except asyncio.CancelledError:
            if not watchdog.barked:
                raise RuntimeError("something that the agent awaited was cancelled") from None
            raise AgentStuckError(
                f"agent {self._agent.name!r} has not finished {_place(turn.event)} in {self._timeout_s:g} s: "
                "give what it awaits a deadline, or raise stream_processing_timeout"
            ) from None
        finally:
            watchdog.stop()

    def _reject(self, turn: Turn, event: Incoming, error: Exception) -> None:
        turn.drop()
        reason = f"agent {self._agent.name!r}, key {event.key!r}: {type(error).__name__}: {error}"
        turn.context.dead_letter(event.partition, event.value or b"", reason)


class _Watchdog:
    """Cancels the running task if one event takes longer than the deadline."""

    def __init__(self, turn: Turn, timeout_s: float, clock: Callable[[], float]) -> None:
        self.barked = False
        self._turn = turn
        self._timeout_s = timeout_s
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._watch()

    def stop(self) -> None:
        self._timer.cancel()

    def _watch(self) -> None:
        self._event, self._since = self._turn.event, self._clock()
        self._timer = self._loop.call_later(self._timeout_s, self._look)

    def _look(self) -> None:
        if self._turn.event is not self._event or self._clock() - self._since < self._timeout_s:
            self._watch()
        elif self._task is not None:
            self.barked = True
            self._task.cancel()


class _Feed:
    """Hands the rows of a batch to the agent, one by one."""

    def __init__(self, key: Serde, value: Serde) -> None:
        self._key = key
        self._value = value
        self._waiting: deque[Incoming] = deque()
        self._turn: Turn | None = None

    @property
    def left(self) -> int:
        """Rows that the agent has not asked for yet."""
        return len(self._waiting)

    def supply(self, waiting: deque[Incoming], turn: Turn) -> None:
        """Give a batch."""
        self._waiting, self._turn = waiting, turn

    async def next_event(self) -> Event:
        """See :class:`towpath.faust.streams.Feed`."""
        while True:
            if self._turn is not None:
                self._turn.keep()
            if not self._waiting or self._turn is None:
                await Asked()
                continue
            event = self._decoded(self._waiting.popleft(), self._turn)
            if event is not None:
                return event

    def _decoded(self, row: Incoming, turn: Turn) -> Event | None:
        """The event, or None if it is poison."""
        try:
            event = Event(self._key.loads(row.key), self._value.loads(row.value))
        except ValidationError as error:
            turn.context.dead_letter(row.partition, row.value or b"", str(error))
            return None
        turn.event = row
        return event


class GroupOperator:
    """Gives each value the key that an agent's ``group_by`` asks for; rows without one are dead letters."""

    def __init__(self, agent: str, value: Serde, key: Callable[[Any], Any], to_bytes: Callable[[Any], bytes]) -> None:
        self._agent = agent
        self._value = value
        self._key = key
        self._to_bytes = to_bytes

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        """Rows with any key → the same rows with the new one."""
        rows: list[Outgoing] = []
        for partition, _, value in frame.select(PARTITION, KEY_COLUMN, VALUE_COLUMN).iter_rows():
            try:
                key = self._to_bytes(self._key(self._value.loads(value)))
            except Exception as error:  # noqa: BLE001  # the key function is user code; the row is reported, not lost
                context.dead_letter(partition, value or b"", f"group_by of agent {self._agent!r}: {error}")
            else:
                rows.append(Outgoing("", partition, key, value))
        return _frame(rows)


def _frame(records: list[Outgoing]) -> pl.DataFrame:
    columns = {
        PARTITION: [record.partition for record in records],
        KEY_COLUMN: [record.key for record in records],
        VALUE_COLUMN: [record.value for record in records],
    }
    return pl.DataFrame(columns, schema=FRAME_SCHEMA)


def _place(event: Incoming | None) -> str:
    return "its start" if event is None else f"the event with key {event.key!r} of task {event.partition}"
