"""Which copies may be deleted, and which keep a state manager from leaving."""

from __future__ import annotations

import pytest

from statemgr.control.records import Assigned, Done, Layer, Manner, control_key, encode_control
from statemgr.control.view import ControlView
from statemgr.sidecar.superseded import needed, superseded
from statemgr.types import TaskId

TASK = TaskId("count", 3)
OTHER = TaskId("count", 4)


def log(*records) -> ControlView:
    view = ControlView()
    for offset, record in enumerate(records):
        view.apply(offset, control_key(record), encode_control(record))
    return view


def assigned(epoch: int, owner: str, *layers: Layer) -> Assigned:
    return Assigned(*TASK, epoch, owner, (), layers, Manner(), 1)


def done(epoch: int) -> Done:
    return Done(*TASK, epoch, "b")


COPIES = [(TASK, 1), (TASK, 3), (TASK, 4), (OTHER, 1)]


def test_once_the_owner_is_complete_copies_of_earlier_epochs_go():
    view = log(assigned(3, "a", Layer("b", 2), Layer("a", 1)), done(3))
    assert superseded(COPIES, view, "a") == [(TASK, 1)]


def test_a_copy_prepared_for_an_epoch_that_went_to_another_goes_with_them():
    view = log(assigned(3, "b", Layer("a", 1)), done(3))
    assert superseded(COPIES, view, "a") == [(TASK, 1), (TASK, 3)]


def test_a_completion_of_an_earlier_epoch_deletes_nothing():
    view = log(assigned(3, "b", Layer("a", 1)), done(3), assigned(4, "c", Layer("b", 3)))
    assert superseded(COPIES, view, "a") == []


@pytest.mark.parametrize("records", [(), (done(3),)])
def test_without_an_assignment_nothing_is_known_to_be_of_no_use(records):
    view = log(*records)
    assert superseded(COPIES, view, "a") == []
    assert needed(COPIES, view, "a") == []


def test_copies_that_the_owner_may_still_ask_for_are_needed_until_it_is_complete():
    records = (assigned(4, "b", Layer("a", 3), Layer("a", 1), Layer("c", 2)),)
    assert needed(COPIES, log(*records), "a") == [(TASK, 1), (TASK, 3)]
    assert needed(COPIES, log(*records, done(4)), "a") == []


def test_the_owner_s_own_copy_is_needed_by_whoever_comes_next():
    assert needed(COPIES, log(assigned(3, "a"), done(3)), "a") == [(TASK, 3)]
    assert needed(COPIES, log(assigned(3, "a"), done(3)), "a", own=False) == []
