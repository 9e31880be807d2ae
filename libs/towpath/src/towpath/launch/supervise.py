"""Runs the processes of a pod: starts them, passes on what they say, and does what the policy decides."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from statemgr.deathsig import die_with_parent
from statemgr.log_format import log_format
from towpath.launch.allocator import with_allocator
from towpath.launch.lines import POD, as_line
from towpath.launch.pod import Action, Part, PodPhase, PodPolicy, Report, Say, Send, Start

LONGEST_LINE = 1 << 20
"""Bytes of a line that are held back until its end is seen."""

OUTPUT_WAIT_S = 2.0
"""After the end of a process, for the last of what it said; a grandchild may hold its output open."""

KILL_WAIT_S = 5.0
"""The kernel removes a killed process within milliseconds, unless it waits for a disk."""

_CHUNK = 1 << 16


class Supervisor:
    """Carries out a pod's policy; one per process, in the main thread.

    Args:
        policy: what decides.
        commands: command line of every part.
        report: tells the coordinator that the stage is dead; waits at most for its own deadline, never raises.
    """

    def __init__(self, policy: PodPolicy, commands: Mapping[Part, Sequence[str]], report: Callable[[], None]) -> None:
        self._policy = policy
        self._commands = commands
        self._report = report
        self._environment = with_allocator(os.environ)
        self._children: dict[Part, asyncio.subprocess.Process] = {}
        self._starts: dict[Part, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._failure: OSError | None = None

    async def run(self) -> int:
        """Run until everything has ended; gives the exit status.

        Raises:
            OSError: a process could not be started.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, lambda: self._do(self._policy.stop(loop.time())))
        self._do(self._policy.begin())
        while self._policy.phase is not PodPhase.ENDED and self._failure is None:
            await self._next_event(loop.time())
        await self._end()
        if self._failure is not None:
            raise self._failure
        return self._policy.status

    async def _next_event(self, now_s: float) -> None:
        deadline_s = self._policy.deadline_s
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), None if deadline_s is None else max(0.0, deadline_s - now_s))
            self._changed.clear()
            return
        self._do([Say("the grace period is over"), *self._policy.overdue()])

    def _do(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case Say(text):
                    say(text)
                case Report():
                    self._in_background(asyncio.to_thread(self._report))
                case Send(part, number):
                    self._send(part, number)
                case Start(part, after_s):
                    self._starts[part] = self._in_background(self._live(part, after_s))
        self._changed.set()

    async def _live(self, part: Part, after_s: float) -> None:
        """One life of a process."""
        await asyncio.sleep(after_s)
        self._starts.pop(part, None)
        loop = asyncio.get_running_loop()
        try:
            child = await asyncio.create_subprocess_exec(
                *self._commands[part],
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=die_with_parent,
                env=self._environment,
            )
        except OSError as error:
            self._failure = error
            self._changed.set()
            return
        self._children[part] = child
        self._do(self._policy.started(part, loop.time()))
        output = self._in_background(_pass_on(str(part), child.stdout))
        status = await child.wait()
        await asyncio.wait([output], timeout=OUTPUT_WAIT_S)
        self._do(self._policy.exited(part, status if status >= 0 else 128 - status, loop.time()))

    def _send(self, part: Part, number: signal.Signals) -> None:
        child = self._children.get(part)
        if child is not None and child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(number)
        elif part in self._starts:
            self._starts[part].cancel()

    async def _end(self) -> None:
        """Leave no process behind, and let the last report out."""
        for part in Part:
            self._send(part, signal.SIGKILL)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=KILL_WAIT_S)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _pass_on(prefix: str, stream: asyncio.StreamReader | None) -> None:
    """Write a process's lines to our standard output, each with the process's name, none torn."""
    held = b""
    while stream is not None and (chunk := await stream.read(_CHUNK)):
        *lines, held = (held + chunk).split(b"\n")
        if len(held) > LONGEST_LINE:
            lines, held = [*lines, held], b""
        _write(prefix, *lines)
    if held:
        _write(prefix, held)


def say(text: str) -> None:
    """Write a line of the pod's own, among those of its processes."""
    _write(POD, text.encode())


def _write(part: str, *lines: bytes) -> None:
    form = log_format()
    # Nobody may be reading any more; the replica is worth more than its log.
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.buffer.write(b"".join(as_line(part, line, form) for line in lines))
        sys.stdout.buffer.flush()
