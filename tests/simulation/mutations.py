"""Known ways to get the protocol wrong, each switched on in the real code: the simulation must find every one.

Tests only. A fault has a flavour of schedules (what happens more often than usual, how state travels) and a number of
seeds within which it must be found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from statemgr import decisions, state
from statemgr.changelog.tail import Tail
from statemgr.control import view
from statemgr.control.records import Strategy
from statemgr.control.view import TaskView
from statemgr.migration.layered import LayeredStore
from statemgr.sidecar import answers, authority, reads
from statemgr.state import TaskState
from statemgr.testing.consumer import FakeConsumer
from statemgr.watermarks import Watermarks
from tests.simulation import faults, state_faults, window_faults
from tests.simulation.application import Counting
from tests.simulation.kinds import Kind
from tests.simulation.schedule import Flavour
from towpath.coordinator.actions import Actions
from towpath.operators.timers import Timers
from towpath.stage.absent import AbsentTimers
from towpath.stage.coordinated import Coordinated
from towpath.stage.event_time import StageTime
from towpath.stage.gate import Gate
from towpath.stage.opening import Opening
from towpath.stage.parking import Parking
from towpath.stage.past import Past
from towpath.stage.replica import Replica

MOVES: Mapping[Kind, float] = {Kind.MOVE: 40, Kind.SCALE: 15}
"""Many changes of owner."""

SLOW_HOLDERS: Mapping[Kind, float] = {Kind.HOLDER_CUT: 10, Kind.HOLDER_STOP: 10}
"""State that takes long to arrive."""

CRASHES: Mapping[Kind, float] = {Kind.KILL: 40, Kind.KILL_EARLY: 10, Kind.UNKNOWN_OUTCOME: 10}
"""Many deaths in the middle of everything."""

ZOMBIES: Mapping[Kind, float] = {Kind.KILL: 20, Kind.MOVE: 40, Kind.STOP: 30, Kind.STOP_IN_CALL: 30}
"""Owners that stand still while others take over."""

LAZILY = Flavour(MOVES, Strategy.LAZY)
BUSILY = Flavour(MOVES, Strategy.LAZY, records=400)
SLOWLY = Flavour({**MOVES, **SLOW_HOLDERS}, Strategy.LAZY)
CRASHING = Flavour(CRASHES)
STANDING_STILL = Flavour(ZOMBIES)
LATE_MARKERS = Flavour(MOVES, Strategy.RESTART, records=160, marker_lag_s=0.3)
WINDOWS_LAZILY = Flavour({**MOVES, **SLOW_HOLDERS}, Strategy.LAZY, records=200, strikes=14, windows=True)


@dataclass(frozen=True)
class Mutation:
    """A fault.

    Attributes:
        name: as the protocol calls it.
        switched_on: the code as it is with the fault.
        seeds: it must be found within so many, from 0 on.
        flavour: of their schedules.
    """

    name: str
    switched_on: Callable[[], AbstractContextManager[None]]
    seeds: int
    flavour: Flavour = Flavour()  # noqa: RUF009 - it is frozen


def patch(owner: Any, name: str, value: Any) -> Callable[[], AbstractContextManager[None]]:
    """Replaces an attribute for a while."""

    @contextmanager
    def switched_on() -> Iterator[None]:
        before = owner.__dict__[name]
        setattr(owner, name, value)
        try:
            yield
        finally:
            setattr(owner, name, before)

    return switched_on


def both(
    one: Callable[[], AbstractContextManager[None]], other: Callable[[], AbstractContextManager[None]]
) -> Callable[[], AbstractContextManager[None]]:
    """Two patches at once."""

    @contextmanager
    def switched_on() -> Iterator[None]:
        with one(), other():
            yield

    return switched_on


MUTATIONS: tuple[Mutation, ...] = (
    Mutation(
        "progress without the parked map",
        patch(Parking, "progress", faults.progress_without_parked),
        150,
        SLOWLY,
    ),
    Mutation("compare by offset, not row", patch(Past, "admits", faults.admits_by_offset), 150, SLOWLY),
    Mutation("end from the watermark", patch(FakeConsumer, "_bounds", faults.stable_bounds), 150, LATE_MARKERS),
    Mutation(
        "fence before intent",
        both(
            patch(Actions, "_fail", faults.fence_first),
            patch(view, "has_ended", faults.ended_by_any_fence),
        ),
        20,
        CRASHING,
    ),
    Mutation(
        "read before init",
        both(
            both(
                patch(Replica, "start", faults.start_after_reading),
                patch(Coordinated, "_read_log", faults.read_nothing),
            ),
            patch(Coordinated, "turn", faults.turn_by_what_was_read),
        ),
        300,
        CRASHING,
    ),
    Mutation(
        "re-init keeps tasks",
        both(patch(Replica, "drop", faults.drop_nothing), patch(Replica, "start", faults.start_with_kept)),
        50,
        CRASHING,
    ),
    Mutation("done of a stale owner accepted", patch(TaskView, "complete", state_faults.complete_once), 50, LAZILY),
    Mutation("target epoch ignored", patch(authority, "check", state_faults.check_no_target), 100, Flavour(MOVES)),
    Mutation("tombstone read as absence", patch(answers, "tombstone_key", state_faults.no_such_tombstone), 200, BUSILY),
    Mutation("fallback if-absent", patch(Tail, "add", state_faults.add_if_absent), 20, CRASHING),
    Mutation("dirty eviction", patch(TaskState, "changes", state_faults.changes_written_early), 20, CRASHING),
    Mutation("cache kept after abort", state_faults.kept_caches, 50, CRASHING),
    Mutation("store directory reused across epochs", patch(Opening, "_empty", state_faults.not_empty), 300, SLOWLY),
    Mutation(
        "topic id ignored",
        patch(decisions, "_foreign", state_faults.never_foreign),
        50,
        Flavour({Kind.TOPICS_ANEW: 20}),
    ),
    Mutation(
        "stale base accepted",
        patch(decisions, "_outdated", state_faults.never_too_old),
        100,
        Flavour({Kind.NIGHT: 30, Kind.MOVE: 40}),
    ),
    Mutation("idleness inferred", patch(Watermarks, "_minimum", faults.minimum_without_the_silent), 10),
    Mutation("lateness judged late", patch(Counting, "_count", faults.count_and_judge), 20, LAZILY),
    Mutation("watermark not held by parked rows", patch(Watermarks, "advance_out", faults.advance_unheld), 20, LAZILY),
    Mutation(
        "bin mark before bin data",
        patch(LayeredStore, "install_bins", state_faults.mark_then_install),
        100,
        Flavour({**MOVES, **CRASHES}, Strategy.HYBRID),
    ),
    Mutation("list taken for whole with its head", patch(state, "_rest", state_faults.no_rest), 50, LAZILY),
    Mutation("commit order of two producers swapped", state_faults.swapped_commits, 10),
    Mutation(
        "read of a copy that is not whole",
        both(
            patch(reads, "is_whole", state_faults.always_whole),
            patch(reads, "is_claimed", state_faults.claimed_by_the_log),
        ),
        100,
        Flavour({Kind.LOSE_STORES: 40}),
    ),
    Mutation(
        "timers of absent state hold nothing",
        patch(AbsentTimers, "earliest", window_faults.nothing_earliest),
        20,
        WINDOWS_LAZILY,
    ),
    Mutation(
        "bins that are due are not fetched",
        patch(AbsentTimers, "newly_due", window_faults.none_due),
        20,
        WINDOWS_LAZILY,
    ),
    Mutation(
        "timers of bins that come are not read",
        patch(Timers, "catch_up", window_faults.catch_nothing_up),
        20,
        WINDOWS_LAZILY,
    ),
    Mutation(
        "windows close before rows that wait", patch(Gate, "ready", window_faults.never_ready), 50, WINDOWS_LAZILY
    ),
    Mutation(
        "rows that waited are judged when they go on",
        patch(Gate, "leave", window_faults.leave_and_judge),
        20,
        WINDOWS_LAZILY,
    ),
    Mutation(
        "marks count that are to be read again",
        patch(StageTime, "advance", window_faults.advance_at_once),
        50,
        WINDOWS_LAZILY,
    ),
)
"""All of them."""
