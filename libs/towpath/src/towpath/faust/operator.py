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
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import polars as pl

from towpath.faust.agents import Agent
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
        self._key = key
        self._topics = topics
        self._tables = tables
        self._runtime = runtime
        self._timeout_s = timeout_s
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._feed: _Feed | None = None
        self._task: asyncio.Task[None] | None = None

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        """Handle every row; what is sent goes out by ``context.emit``.

        Raises:
            AgentStuckError: the agent did not finish an event in time.
            FaustProgramError: the agent returns without asking for an event.
        """
        turn = Turn(self._agent.name, context, self._topics, self._tables)
        before = self._runtime.begin(turn)
        try:
            self._handle(frame, turn)
        finally:
            self._runtime.begin(before)
        for topic in dict.fromkeys(record.topic for record in turn.sent):
            context.emit(topic, _frame([record for record in turn.sent if record.topic == topic]))
        return _frame([])

    def close(self) -> None:
        """End the agent and its event loop."""
        if self._loop is None or self._loop.is_closed():
            return
        if self._task is not None and not self._task.done():
            self._task.cancel()
            self._loop.run_until_complete(asyncio.wait([self._task]))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def __del__(self) -> None:
        # The runtime makes operators anew after a loss of ownership and has no other word for their end.
        self.close()

    def _handle(self, frame: pl.DataFrame, turn: Turn) -> None:
        rows = frame.select(PARTITION, KEY_COLUMN, VALUE_COLUMN).rows()
        if not rows:
            return
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        waiting = deque(Incoming(*row) for row in rows)
        while waiting:
            self._loop.run_until_complete(self._run(waiting, turn))

    async def _run(self, waiting: deque[Incoming], turn: Turn) -> None:
        """Run the agent until it has asked for more than there is, or has ended."""
        if self._feed is None or self._task is None:
            self._feed = _Feed(self._key, self._agent.topic.value)
            self._task = asyncio.ensure_future(self._agent.run(Stream(self._feed)))
        idle = self._feed.supply(waiting, turn)
        left = len(waiting)
        await self._wait(self._task, idle, turn)
        if not self._task.done():
            return
        error = self._task.exception()
        self._feed = self._task = None
        self._settle(error, turn, started=len(waiting) < left)

    async def _wait(self, task: asyncio.Task[None], idle: asyncio.Future[None], turn: Turn) -> None:
        """Until the agent is idle or ended; the deadline is per event, not per batch."""
        event, since = turn.event, self._clock()
        while True:
            done, _ = await asyncio.wait({task, idle}, timeout=self._timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return
            if turn.event is event and self._clock() - since >= self._timeout_s:
                key = event.key if event is not None else None
                place = f"the event with key {key!r} of task {event.partition}" if event is not None else "its start"
                raise AgentStuckError(
                    f"agent {self._agent.name!r} has not finished {place} in {self._timeout_s:g} s: "
                    "give what it awaits a deadline, or raise stream_processing_timeout"
                )
            event, since = turn.event, self._clock()

    def _settle(self, error: BaseException | None, turn: Turn, *, started: bool) -> None:
        """What the end of the agent means for the event in hand."""
        if error is None:
            if turn.event is None and not started:
                raise FaustProgramError(
                    f"agent {self._agent.name!r} returned without asking for an event: iterate over its stream"
                )
            turn.keep()
        elif not isinstance(error, Exception) or turn.event is None:
            raise error
        else:
            event = turn.event
            turn.drop()
            reason = f"agent {self._agent.name!r}, key {event.key!r}: {type(error).__name__}: {error}"
            turn.context.dead_letter(event.partition, event.value or b"", reason)


class _Feed:
    """Hands the rows of a batch to the agent, one by one."""

    def __init__(self, key: Serde, value: Serde) -> None:
        self._key = key
        self._value = value
        self._waiting: deque[Incoming] = deque()
        self._turn: Turn | None = None
        self._idle: asyncio.Future[None] | None = None
        self._more: asyncio.Future[None] | None = None

    def supply(self, waiting: deque[Incoming], turn: Turn) -> asyncio.Future[None]:
        """Give a batch; the future is done when the agent has asked for more."""
        loop = asyncio.get_running_loop()
        self._waiting, self._turn, self._idle = waiting, turn, loop.create_future()
        if self._more is not None:
            self._more.set_result(None)
            self._more = None
        return self._idle

    async def next_event(self) -> Event:
        """See :class:`towpath.faust.streams.Feed`."""
        while True:
            if self._turn is not None:
                self._turn.keep()
            if not self._waiting:
                await self._wait_for_more()
                continue
            event = self._decoded(self._waiting.popleft())
            if event is not None:
                return event

    def _decoded(self, row: Incoming) -> Event | None:
        """The event, or None if it is poison."""
        turn = self._turn
        if turn is None:
            raise AssertionError("a feed with rows has a turn")
        try:
            event = Event(self._key.loads(row.key), self._value.loads(row.value))
        except ValidationError as error:
            turn.context.dead_letter(row.partition, row.value or b"", str(error))
            return None
        turn.event = row
        return event

    async def _wait_for_more(self) -> None:
        self._more = asyncio.get_running_loop().create_future()
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)
        await self._more


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
