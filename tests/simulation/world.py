"""Simulated time and simulated processes: one thread, one seed, any interleaving.

The real code runs in *lanes* (greenlets), each of which belongs to a process. A lane runs until it waits; every call
of Kafka and every pause of the real code is a place where the world may let others go first::

    event queue ──▶ resume a lane ──▶ real code ──▶ Kafka call, pause, request ──▶ world.sleep ──▶ event queue
                └─▶ deliver a message, strike a process, compact a topic, …

A killed process is never resumed, so nothing of its code runs after its death. A stopped one (SIGSTOP) is resumed
when it is continued, with all that was due meanwhile.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from heapq import heappop, heappush

from greenlet import GreenletExit, getcurrent, greenlet

from tests.simulation.lanes import Event, Lane, Process

MOST_EVENTS = 400_000
"""A run has some 5,000; one that goes on and on without time passing has to end."""

LEAST_SLEEP_S = 1e-6
"""Time always passes: a wait for the rest of a float's precision would never end."""


class SimulationError(AssertionError):
    """Something that must never happen; the text says what."""


class World:
    """Time, processes, and the one source of chance.

    Args:
        seed: decides everything.
        haste: probability that a call is not the end of a lane's turn.
        step_s: longest time that a call takes.
        trace: note every Kafka call in the history, which takes time.
    """

    def __init__(self, seed: int, *, haste: float = 0.85, step_s: float = 0.004, trace: bool = False) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.now_s = 0.0
        self.slept_s = 0.0
        self.history: list[Event] = []
        self.trace = trace
        self.closed = False
        self.on_kill: Callable[[Process], object] = lambda _: None
        self._haste = haste
        self._step_s = step_s
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._ties = 0
        self._events = 0
        self._hub = getcurrent()
        self._lane: Lane | None = None
        self._failure: BaseException | None = None
        self._left: list[Lane] = []
        self._processes: list[Process] = []

    # --- history ---

    def note(self, actor: str, what: str) -> None:
        """Add a line to the history."""
        self.history.append(Event(self.now_s, actor, what))

    def fail(self, error: BaseException) -> None:
        """End the run with this error, from wherever it was found."""
        if self._failure is None:
            self._failure = error

    # --- events ---

    def at(self, when_s: float, action: Callable[[], None]) -> None:
        """Do something at a time."""
        self._ties += 1
        heappush(self._queue, (max(when_s, self.now_s), self._ties, action))

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something after a while."""
        self.at(self.now_s + seconds, action)

    def run_until(self, when_s: float, enough: Callable[[], bool] | None = None) -> None:
        """Let time pass up to a moment, or until there is enough.

        Raises:
            whatever a lane ended with, or was reported by :meth:`fail`.
        """
        while self._queue and self._queue[0][0] <= when_s:
            at_s, _, action = heappop(self._queue)
            self.now_s = max(self.now_s, at_s)
            action()
            self._events += 1
            if self._events > MOST_EVENTS:
                raise SimulationError(f"{MOST_EVENTS} events and no end: something goes round in circles (I6)")
            if self._failure is not None:
                raise self._failure
            if enough is not None and enough():
                return
        self.now_s = max(self.now_s, when_s)

    def pass_night(self, seconds: float) -> None:
        """All that is planned happens later by so much: the whole machine sleeps, and its clocks go on."""
        self.now_s += seconds
        self.slept_s += seconds
        self._queue = [(at_s + seconds, tie, action) for at_s, tie, action in self._queue]

    # --- processes ---

    def start(self, name: str, body: Callable[[Process], object], *, wall_offset_s: float = 0.0) -> Process:
        """A new process that runs ``body`` from the next event on."""
        process = Process(name, self.now_s, wall_offset_s)
        self._processes.append(process)
        self.note(name, "starts")
        self.spawn(process, lambda: self._main(process, body))
        return process

    def spawn(self, process: Process, body: Callable[[], object]) -> Lane:
        """A further thread of a process."""
        lane = Lane(process, greenlet(lambda: self._guarded(process, body), parent=self._hub))
        self._left.append(lane)
        self.after(0.0, lambda: self._resume(lane))
        return lane

    def kill(self, process: Process, cause: str) -> None:
        """SIGKILL: nothing of it runs any more. From within one of its own lanes this does not return."""
        if process.dead:
            return
        self.on_kill(process)
        process.dead = True
        process.deferred.clear()
        self.note(process.name, f"killed: {cause}")
        if process.on_death is not None:
            process.on_death(cause)
        if self._lane is not None and self._lane.process is process:
            self._hub.switch()

    def stop(self, process: Process) -> None:
        """SIGSTOP."""
        if not (process.dead or process.stopped):
            process.stopped = True
            self.note(process.name, "stopped (SIGSTOP)")
            if self._lane is not None and self._lane.process is process:
                self.sleep(0.0)

    def resume(self, process: Process) -> None:
        """SIGCONT."""
        if process.stopped and not process.dead:
            process.stopped = False
            self.note(process.name, "continued (SIGCONT)")
            deferred, process.deferred = process.deferred, []
            for action in deferred:
                self.after(0.0, action)

    def processes(self) -> list[Process]:
        """All that live."""
        return [process for process in self._processes if not process.dead]

    @property
    def current(self) -> Process | None:
        """The process whose code runs now; None: the world itself."""
        return None if self._lane is None else self._lane.process

    @property
    def lane(self) -> Lane | None:
        """The lane that runs now."""
        return self._lane

    # --- called by the real code ---

    def sleep(self, seconds: float) -> None:
        """Let the current lane wait; the world itself may not."""
        lane = self._lane
        if self.closed:
            raise GreenletExit
        if lane is None:
            raise SimulationError(f"the world itself was asked to wait for {seconds:g} s")
        self.at(self.now_s + max(LEAST_SLEEP_S, seconds), lambda: self._resume(lane))
        self._hub.switch()
        if self.closed:
            raise GreenletExit

    def step(self, client: str, call: str) -> None:
        """A call of Kafka begins: the process may die here, or others go first."""
        lane = self._lane
        if lane is None:
            if self.closed:
                raise GreenletExit
            return
        process = lane.process
        process.steps += 1
        if self.trace:
            self.note(process.name, f"{client}.{call}")
        if process.kill_after is not None and process.steps >= process.kill_after:
            self.kill(process, f"before {client}.{call}")
        if process.stop_after is not None and process.steps >= process.stop_after:
            process.stop_after = None
            self.after(process.stop_s, lambda: self.resume(process))
            self.stop(process)
        if self.rng.random() >= self._haste:
            self.sleep(self.rng.random() * self._step_s)

    def close(self) -> None:
        """End all lanes that are left, without letting them do anything more."""
        self.closed = True
        self._lane = None
        for lane in self._left:
            while not lane.body.dead and lane.body:
                try:
                    lane.body.throw(GreenletExit)
                except BaseException as error:  # noqa: BLE001 - whatever the dead say is of no interest
                    del error
        self._left.clear()
        self._queue.clear()

    def _main(self, process: Process, body: Callable[[Process], object]) -> None:
        body(process)
        if not process.dead:
            process.dead = True
            self.note(process.name, "ended")
            if process.on_death is not None:
                process.on_death("ended")

    def _guarded(self, process: Process, body: Callable[[], object]) -> None:
        try:
            body()
        except GreenletExit:
            return
        except BaseException as error:  # noqa: BLE001 - raised again by run_until
            error.add_note(f"in process {process.name}")
            self.fail(error)

    def _resume(self, lane: Lane) -> None:
        process = lane.process
        if process.dead:
            return
        if process.stopped:
            process.deferred.append(lambda: self._resume(lane))
            return
        self._lane = lane
        lane.body.switch()
        self._lane = None
        if lane.body.dead:
            self._left.remove(lane)
