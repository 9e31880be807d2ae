"""Runs a seed."""

from __future__ import annotations

import faulthandler
import gc
import hashlib
import logging
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from unittest.mock import patch

import structlog

from statemgr.changelog import RestoreSettings
from tests.simulation.coverage import Coverage
from tests.simulation.lanes import Event
from tests.simulation.schedule import Schedule, scheduled
from tests.simulation.simulation import Simulation
from tests.simulation.world import SimulationError
from towpath.operators import timers
from towpath.stage import chain, gate, processor
from towpath.stage.parking import Parking

HANGS_S = 120.0
"""Real time after which a seed, which takes 0.1 s, is given up."""


@dataclass(frozen=True)
class Outcome:
    """A run that passed.

    Attributes:
        digest: of its history: the same seed gives the same.
        summary: in few words.
        coverage: see :mod:`tests.simulation.coverage`.
        history: what happened.
    """

    digest: str
    summary: str
    coverage: Coverage
    history: Sequence[Event]

    def light(self) -> Outcome:
        """Without its history, for the way between processes."""
        return replace(self, history=())


class Failure(AssertionError):
    """A run that did not pass; the text has seed, history and cause.

    Attributes:
        coverage: until then.
    """

    def __init__(self, text: str, coverage: Coverage) -> None:
        super().__init__(text)
        self.coverage = coverage


@dataclass(frozen=True)
class Failed:
    """What is told of a failure between processes."""

    text: str
    coverage: Coverage


def run_seed(seed: int, *, trace: bool = False, schedule: Schedule | None = None) -> Outcome:
    """Run a seed.

    Raises:
        Failure: something happened that must never happen.
    """
    planned = schedule or scheduled(seed)
    with quiet(), small_parking(planned.parking_rows), small_restores(), small_turns(), no_collection():
        simulation = Simulation(seed, planned, trace=trace)
        try:
            simulation.run()
        except Exception as error:
            raise Failure(_explained(seed, simulation, error), simulation.coverage) from error
        finally:
            simulation.close()
    world = simulation.world
    digest = hashlib.sha256("\n".join(map(str, world.history)).encode()).hexdigest()[:16]
    summary = f"{simulation.watch.commits} commits, {len(planned.strikes)} strikes, {world.now_s:.1f} s"
    return Outcome(digest, summary, simulation.coverage, world.history)


def attempt(seed: int) -> tuple[int, Outcome | Failed]:
    """The seed with its outcome, or why it failed; for processes that run many.

    A process that hangs says where, and ends.
    """
    faulthandler.dump_traceback_later(HANGS_S, exit=True)
    try:
        return seed, run_seed(seed).light()
    except Failure as failure:
        return seed, Failed(str(failure), failure.coverage)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _explained(seed: int, simulation: Simulation, error: Exception) -> str:
    lines = [f"history of seed {seed}:", *map(str, simulation.world.history)]
    notes = getattr(error, "__notes__", [])
    trace = [] if isinstance(error, SimulationError) else traceback.format_exception(error)
    return "\n".join([*lines, "", *trace, f"{type(error).__name__}: {error}", *notes])


@contextmanager
def small_restores() -> Iterator[None]:
    """Restores and tails in several batches, so that others meet them half done."""
    restore, catch_up = (import_module(f"statemgr.changelog.{name}") for name in ("restore", "catch_up"))
    small = partial(RestoreSettings, batch_records=8, chunk_bytes=1)
    with ExitStack() as patched:
        for module in (restore, catch_up):
            patched.enter_context(patch.object(module, "RestoreSettings", small))
        patched.enter_context(patch.object(restore, "MIN_CHUNK_BYTES", 1))
        patched.enter_context(patch.object(catch_up, "TAIL_BATCH_BYTES", 1))
        yield


SMALL_TURNS = {
    (gate, "TAKEN_ROWS"): 2,
    (processor, "CLOSED_ENTRIES"): 4,
    (chain, "TOLD_ENTRIES"): 6,
    (timers, "FIRST_ENTRIES"): 2,
}
"""How much is done in a turn: a run has tens of windows a task."""

READ_ENTRIES = 3
"""Entries whose timers are read at once."""


@contextmanager
def small_turns() -> Iterator[None]:
    """Rows that waited, timers that are due, and timers that are read: in several turns each."""
    with ExitStack() as patched:
        for (module, name), value in SMALL_TURNS.items():
            patched.enter_context(patch.object(module, name, value))
        patched.enter_context(patch.object(timers.Timers.__init__, "__defaults__", (READ_ENTRIES,)))
        yield


@contextmanager
def quiet() -> Iterator[None]:
    """Replicas and coordinators log every step; drawing these lines would take half of the time."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        structlog.reset_defaults()


@contextmanager
def small_parking(rows: int) -> Iterator[None]:
    """Room for few parked rows, so that it is found to be full."""
    defaults = Parking.__init__.__kwdefaults__
    before = dict(defaults)
    defaults["most_rows"] = rows
    try:
        yield
    finally:
        defaults.update(before)


@contextmanager
def no_collection() -> Iterator[None]:
    """A run is short and makes few cycles: collecting them all the time costs a fifth of it."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
