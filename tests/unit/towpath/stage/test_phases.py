from __future__ import annotations

from itertools import product

import pytest

from towpath.errors import IllegalTransitionError
from towpath.stage.phases import Phase, PhaseMachine

PATHS = {
    Phase.STARTING: (),
    Phase.FENCING: (Phase.FENCING,),
    Phase.RESTORING: (Phase.FENCING, Phase.RESTORING),
    Phase.RUNNING: (Phase.FENCING, Phase.RESTORING, Phase.RUNNING),
    Phase.STOPPING: (Phase.STOPPING,),
    Phase.STOPPED: (Phase.STOPPING, Phase.STOPPED),
    Phase.FAILED: (Phase.FAILED,),
}
"""A way to each phase."""

LEGAL = {
    (Phase.STARTING, Phase.FENCING),
    (Phase.FENCING, Phase.FENCING),
    (Phase.FENCING, Phase.RESTORING),
    (Phase.RESTORING, Phase.FENCING),
    (Phase.RESTORING, Phase.RUNNING),
    (Phase.RUNNING, Phase.FENCING),
    (Phase.STOPPING, Phase.STOPPED),
    *((phase, Phase.STOPPING) for phase in (Phase.STARTING, Phase.FENCING, Phase.RESTORING, Phase.RUNNING)),
    *((phase, Phase.FAILED) for phase in set(Phase) - {Phase.STOPPED, Phase.FAILED}),
}
"""The arrows of the picture, written down a second time."""


def machine_in(phase: Phase) -> PhaseMachine:
    machine = PhaseMachine()
    for step in PATHS[phase]:
        machine.to(step)
    return machine


@pytest.mark.parametrize(("before", "after"), sorted(set(product(Phase, Phase)) & LEGAL))
def test_every_arrow_of_the_picture_can_be_taken(before: Phase, after: Phase) -> None:
    machine = machine_in(before)
    machine.to(after)
    assert machine.phase is after


@pytest.mark.parametrize(("before", "after"), sorted(set(product(Phase, Phase)) - LEGAL))
def test_every_other_transition_raises_and_leaves_the_phase(before: Phase, after: Phase) -> None:
    machine = machine_in(before)
    with pytest.raises(IllegalTransitionError, match=f"can't go from {before} to {after}"):
        machine.to(after)
    assert machine.phase is before


def test_each_change_is_told_once() -> None:
    told: list[Phase] = []
    machine = PhaseMachine(told.append)
    machine.to(Phase.FENCING)
    machine.to(Phase.RESTORING)
    assert told == [Phase.FENCING, Phase.RESTORING]
