"""Whom a state manager answers, by the control log (R8)."""

from __future__ import annotations

import pytest

from statemgr.control.records import Assigned, Layer, Manner
from statemgr.control.view import TaskView
from statemgr.errors import HolderUnavailableError, StaleRequestError
from statemgr.migration.ports import Address
from statemgr.sidecar.authority import check
from statemgr.types import TaskId

TASK = TaskId("count", 3)


def view(epoch: int, owner: str, *layers: Layer) -> TaskView:
    return TaskView(Assigned(*TASK, epoch, owner, (), layers, Manner(), 1), 0)


def refusal(known: TaskView | None, epoch: int, target: int) -> StaleRequestError | None:
    try:
        check(known, Address(TASK, Layer("a", epoch), target), "a")
    except StaleRequestError as error:
        return error
    return None


def test_the_newest_owner_may_ask_for_every_layer_of_its_assignment():
    known = view(5, "d", Layer("c", 4), Layer("a", 3, "old:1"), Layer("a", 1))
    assert refusal(known, 3, 5) is None
    assert refusal(known, 1, 5) is None


def test_the_newest_owner_may_not_ask_for_what_is_not_listed_and_later_changes_nothing():
    known = view(5, "d", Layer("c", 4), Layer("a", 3))
    refused = refusal(known, 4, 5)
    assert refused is not None
    assert not refused.later


def test_the_next_owner_may_ask_for_the_newest_owner_s_copy_and_its_layers():
    known = view(5, "a", Layer("a", 3))
    assert refusal(known, 5, 6) is None
    assert refusal(known, 3, 6) is None
    refused = refusal(known, 4, 6)
    assert refused is not None
    assert refused.later


@pytest.mark.parametrize(("target", "later"), [(4, False), (7, True), (99, True)])
def test_a_former_owner_is_refused_for_good_and_a_far_later_one_for_now(target, later):
    refused = refusal(view(5, "a", Layer("a", 3)), 3, target)
    assert refused is not None
    assert refused.later == later


@pytest.mark.parametrize("known", [None, TaskView()])
def test_without_an_assignment_the_log_has_not_been_read_far_enough(known):
    refused = refusal(known, 1, 2)
    assert refused is not None
    assert refused.later


def test_a_request_for_another_holder_says_that_the_address_has_changed():
    with pytest.raises(HolderUnavailableError, match=r"copy count/3@1 of b was asked of the state manager of a"):
        check(view(2, "c", Layer("b", 1)), Address(TASK, Layer("b", 1), 2), "a")
