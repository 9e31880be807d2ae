"""Whom a state manager answers, by the control log (R8)."""

from __future__ import annotations

import pytest

from statemgr.clock import SystemClock
from statemgr.control.records import Assigned, Layer, Manner, control_key, encode_control
from statemgr.control.view import ControlView, TaskView
from statemgr.errors import HolderUnavailableError, StaleRequestError
from statemgr.migration.ports import Address
from statemgr.sidecar.authority import check
from statemgr.sidecar.readers import MemoryReaders
from statemgr.sidecar.service import StateService
from statemgr.store import MemoryBackend, StoreMeta
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


def test_a_request_that_waits_is_refused_if_the_task_is_given_to_another_meanwhile():
    """A state manager that stood still between question and answer has then read on."""
    backend, view = MemoryBackend(), ControlView()
    store = backend.open(TASK, 1)

    def assign(epoch: int, owner: str, *layers: Layer) -> None:
        record = Assigned(*TASK, epoch, owner, (), layers, Manner(), 1)
        view.apply(epoch, control_key(record), encode_control(record))

    def while_it_waits(_seconds: float) -> None:
        assign(3, "c", Layer("b", 2), Layer("a", 1))
        store.write([(b"\x01aaa", b"1")], StoreMeta("T", 5, 1, 1, None))

    assign(2, "b", Layer("a", 1))
    service = StateService(MemoryReaders(backend), lambda: view, SystemClock(), "a", pause=while_it_waits)
    with pytest.raises(StaleRequestError, match="is over: c owns it"):
        service.look_up(Address(TASK, Layer("a", 1), 2), 5, [b"\x01aaa"], timeout_s=10.0)
