"""The rhythm of a replica: how much it reads at once, how long it waits in between, and when it commits.

Pure: it is told of batches and times, and remembers what the decisions of :mod:`towpath.stage.policy` need.
"""

from __future__ import annotations

from collections.abc import Sequence

from statemgr.kafka.ports import Message
from towpath.query.plan import Format, StagePlan
from towpath.stage.columns import mean_value_bytes
from towpath.stage.policy import (
    CommitLimits,
    Pace,
    TransactionFacts,
    alert_batch_records,
    batch_interval_s,
    breath_s,
    first_batch_records,
    gathers,
    most_batch_records,
    next_batch_records,
    should_commit,
    smoothed_s,
)
from towpath.stage.settings import Guarantee, StageSettings

IDLE_WAIT_S = 0.1
"""Longest wait for input; also how soon a replica notices that it was asked to stop."""

ALERT_S = 0.005
"""Longest wait without a look at the control log while a move is near: a release is to take at most 20 ms (R16)."""

LEAST_WAIT_S = 0.001
"""Shortest wait for input that is one: the client counts in milliseconds."""

SIZED_RECORDS = 64
"""Records of a batch that are looked at to know how large they are."""


class Rhythm:
    """That of one replica.

    ``alert`` says in several places that a release may be asked for at any moment: batches are to be short then, and
    commits do not wait.
    """

    def __init__(self, plan: StagePlan, settings: StageSettings) -> None:
        self._limits = CommitLimits(settings.commit_interval_ms / 1000, settings.dirty_entries)
        self._most_records = (
            settings.arrow_batch_records
            if any(item.format is Format.ARROW for item in plan.inputs)
            else settings.json_batch_records
        )
        self._most_now = self._most_records
        self._batch_records = self._least_records = first_batch_records(self._most_records)
        self._pace = Pace()
        exactly_once = settings.guarantee is Guarantee.EXACTLY_ONCE
        self._outputs_wait = exactly_once or any(output.inner for output in plan.outputs)
        self._interval_s = batch_interval_s(settings.batch_interval_ms / 1000, outputs_wait=self._outputs_wait)
        self._begun_s = self._ended_s = float("-inf")
        self._busy_s = 0.0
        self._waited_s = 0.0
        self._more = False
        self._backlog = False

    def batch_limit(self, tasks: int, *, alert: bool) -> int:
        """Most records to read next, with so many tasks."""
        if not alert:
            return self._batch_records
        least = max(self._least_records, tasks)  # records come one input partition after the other
        return alert_batch_records(self._batch_records, least, self._pace)

    def read(self, messages: Sequence[Message], limit: int, now_s: float, wall_ms: int) -> None:
        """A poll for up to ``limit`` records brought these.

        Args:
            messages: records.
            limit: most that could have come.
            now_s: monotonic time.
            wall_ms: wall clock, in ms since the epoch.
        """
        self._more = len(messages) >= limit
        # Of the largest batch: slow operators, which take less, get a transaction for each batch.
        self._backlog = len(messages) * 2 >= self._most_records
        if messages:
            self._waited_s = _waited_s(messages, wall_ms)
            value_bytes = mean_value_bytes(messages, SIZED_RECORDS)
            self._most_now = most_batch_records(self._most_records, value_bytes, self._waited_s)
            self._begun_s = now_s

    def gathers(self, *, alert: bool) -> bool:
        """Whether rows of the batch may wait for those of later ones."""
        return gathers(backlog=self._backlog, waited_s=0.0 if alert else self._waited_s)

    def processed(self, records: int, took_s: float) -> None:
        """A batch was processed, or failed, in ``took_s`` seconds."""
        self._pace = self._pace.after(records, took_s)
        self._batch_records = next_batch_records(self._batch_records, self._most_now, records, took_s)

    def ended(self, now_s: float) -> None:
        """What a batch brought is committed, or left open."""
        self._ended_s = now_s
        self._busy_s = smoothed_s(self._busy_s, now_s - self._begun_s)

    def breath_left_s(self, now_s: float, *, waited_for: bool) -> float:
        """How long to let records gather before the next poll.

        Args:
            now_s: monotonic time.
            waited_for: rows that waited for their state have it, and wait no longer than the usual distance of batches.
        """
        busy_s = 0.0 if waited_for else self._busy_s
        return breath_s(now_s - self._begun_s, now_s - self._ended_s, self._interval_s, busy_s, self._more)

    def poll_timeout_s(self, *, open_s: float | None, watchful: bool) -> float:
        """Longest wait for records.

        Args:
            open_s: seconds since the transaction began; None: there is none.
            watchful: something else may need the replica soon.
        """
        longest_s = ALERT_S if watchful else IDLE_WAIT_S
        if open_s is None:
            return longest_s
        left_s = max(LEAST_WAIT_S, self._limits.interval_s - open_s)
        return 0.0 if self._backlog else min(longest_s, left_s)

    def commits(
        self,
        *,
        alert: bool,
        open_s: float | None,
        dirty_entries: int,
        output_bytes: int,
        stopping: bool,
        waiting: bool,
    ) -> bool:
        """Whether the transaction ends now.

        Args:
            alert: see the class.
            open_s: seconds since it began; None: there is none.
            dirty_entries: uncommitted state entries of all tasks.
            output_bytes: bytes produced in it.
            stopping: the replica was asked to stop.
            waiting: rows wait for their state.
        """
        facts = TransactionFacts(
            open=open_s is not None,
            open_s=open_s or 0.0,
            dirty_entries=dirty_entries,
            output_bytes=output_bytes,
            backlog=self._backlog,
            waited_s=0.0 if alert else self._waited_s,
            outputs_wait=self._outputs_wait,
            stopping=stopping,
            fruitless=waiting and not dirty_entries and not output_bytes,
        )
        return should_commit(facts, self._limits)


def _waited_s(messages: Sequence[Message], wall_ms: int) -> float:
    """Age of the younger of the first and the last record, in seconds; 0 if clocks differ so that it has none."""
    appended_ms = max(messages[0].timestamp()[1], messages[-1].timestamp()[1])
    return max(0.0, (wall_ms - appended_ms) / 1000)
