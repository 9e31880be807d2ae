"""Processes, their threads, and what is noted of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from greenlet import greenlet


@dataclass(frozen=True)
class Event:
    """A line of the history."""

    at_s: float
    actor: str
    what: str

    def __str__(self) -> str:
        return f"{self.at_s:9.4f}  {self.actor:<14} {self.what}"


@dataclass(eq=False)
class Process:
    """What lives, is stopped, and dies as one.

    Attributes:
        name: unique among those that live.
        born_s: when it started; its monotonic clock counts from here.
        wall_offset_s: how far its wall clock is off.
        stopped: between SIGSTOP and SIGCONT.
        dead: killed or ended.
        steps: Kafka calls so far.
        kill_after: step at which it dies; None: not planned.
        stop_after: step at which it is stopped for ``stop_s``; None: not planned.
    """

    name: str
    born_s: float
    wall_offset_s: float = 0.0
    stopped: bool = False
    dead: bool = False
    steps: int = 0
    kill_after: int | None = None
    stop_after: int | None = None
    stop_s: float = 0.0
    deferred: list[Callable[[], None]] = field(default_factory=list)
    on_death: Callable[[str], None] | None = None


@dataclass(eq=False)
class Lane:
    """A thread of a process."""

    process: Process
    body: greenlet
