"""Event time of a task: how far it has come, which rows are late, and what a successor must know of it (R14).

::

    upstream a ── mark 120 ─┐
    upstream b ── mark 100 ─┼─▶ minimum 100 ──▶ late? (judged when a row arrives, before it is parked)
    upstream c ── idle ─────┘        │
                                     └─▶ held by parked rows and timers ──▶ watermark out, never going back

Marks travel *in band*, among the rows of the input, and so does idleness: silence holds the watermark. What a task
judges is therefore decided by the order of its input alone, by whomever and whenever it is read. That makes it safe to
read again from the lowest incomplete offset after a take-over: the marks recorded for the successor are those *before*
that offset, and the ones behind it are met once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

NEVER = -(2**62)
"""Watermark before any mark: nothing is late, nothing may be closed."""

IDLE = 2**62
"""Mark of an upstream task that has nothing for this task until it says otherwise; it holds nothing back."""

OUT = "out"
"""Name under which the progress record keeps the watermark that was sent on; no upstream task is called so."""

REACHED = "reached"
"""Name under which it keeps the task's own watermark, which may be ahead of all marks: an upstream task that was idle
can come back with an earlier one."""


class Watermarks:
    """The watermarks of one task.

    Args:
        upstreams: names of the upstream tasks; one that has not said anything yet holds the watermark.
        recorded: what :meth:`record` gave the former owner; empty for a task that never ran.
    """

    def __init__(self, upstreams: Iterable[str], recorded: Mapping[str, int] | None = None) -> None:
        known = recorded or {}
        self._out = known.get(OUT, NEVER)
        self._now = {name: known.get(name, NEVER) for name in (*upstreams, REACHED)}
        self._trail: list[tuple[str, int, dict[str, int]]] = []

    @property
    def current(self) -> int:
        """The task's own watermark: rows with an earlier event time that arrive now are late."""
        return self._now[REACHED]

    @property
    def out(self) -> int:
        """The watermark that was sent on last."""
        return self._out

    @property
    def idle(self) -> bool:
        """Whether all upstream tasks have said that they have nothing for now."""
        return all(mark == IDLE for name, mark in self._now.items() if name != REACHED)

    def copy(self) -> Watermarks:
        """One of its own that stands where this one does; for looking ahead."""
        other = Watermarks(())
        other._out, other._now = self._out, self._now
        return other

    def expect(self, upstream: str, tasks: Sequence[str]) -> None:
        """What was held for by one name so far is these upstream tasks; nothing happens if that is known, or if none.

        For inputs of which only the marks tell how many tasks write to them.
        """
        if tasks and upstream in self._now:
            known = dict.fromkeys(tasks, NEVER) | self._now
            del known[upstream]
            self._now = known

    def mark(self, upstream: str, mark_ms: int, topic: str, offset: int) -> None:
        """An upstream task says that it sends nothing before ``mark_ms`` any more; :data:`IDLE`: nothing at all.

        Args:
            upstream: its name.
            mark_ms: event time in ms.
            topic: input in which it said so.
            offset: where, after the rows there.
        """
        before = self._now[upstream]
        if mark_ms == before or (before != IDLE and mark_ms < before):
            return
        self._trail.append((topic, offset, self._now))
        self._now = {**self._now, upstream: mark_ms}
        self._now[REACHED] = max(self.current, self._minimum())

    def late(self, event_ms: int) -> bool:
        """Whether a row that arrives now is late; to be asked before the row is parked."""
        return event_ms < self.current

    def advance_out(self, held: Iterable[int] = ()) -> int | None:
        """The watermark to be sent on, if it is a new one.

        Args:
            held: event times of parked rows that are not late, and one less than the earliest timers of state that
                is not here yet.
        """
        candidate = min(self.current, min(held, default=self.current))
        if candidate <= self._out:
            return None
        self._out = candidate
        return candidate

    def record(self, lows: Mapping[str, int]) -> dict[str, int]:
        """What a successor needs that reads on; for the progress record.

        With several topics the order between them is not recorded: marks of one that lie behind the first mark to be
        met again of another are left out. That holds the successor's watermark until the next mark, and is safe.

        Args:
            lows: input topic → offset from which the successor reads.
        """
        done = 0
        for topic, offset, _ in self._trail:
            if offset >= lows.get(topic, 0):
                break
            done += 1
        del self._trail[:done]
        return {**(self._trail[0][2] if self._trail else self._now), OUT: self._out}

    def _minimum(self) -> int:
        """Over upstream tasks that are not idle; if all are, time stands still."""
        active = [mark for name, mark in self._now.items() if name != REACHED and mark != IDLE]
        return min(active, default=NEVER)
