"""Whom a state manager answers (R8): decided by the control log as it has read it."""

from __future__ import annotations

from statemgr.control.records import Assigned, Layer
from statemgr.control.view import TaskView
from statemgr.errors import HolderUnavailableError, StaleRequestError
from statemgr.migration.ports import Address


def check(view: TaskView | None, address: Address, name: str) -> None:
    """Refuse what the log does not back.

    The owner of the newest assignment may ask for the layers listed there. The owner of the next epoch, which is being
    prepared or whose assignment is not read here yet, may ask for what that assignment can list: the copy of the newest
    owner, and the layers below it. Reading takes nothing from anybody; what it is good for, the asker decides.

    Args:
        view: what the log says of the task so far; None: nothing.
        address: what is asked.
        name: whose copies these are.

    Raises:
        HolderUnavailableError: the request was meant for another holder.
        StaleRequestError: refused; ``later`` if reading on in the log may change that.
    """
    if address.layer.holder != name:
        raise HolderUnavailableError(
            f"{_name(address)} was asked of the state manager of {name}; the address of "
            f"{address.layer.holder} has changed"
        )
    assigned = view.assigned if view is not None else None
    if assigned is None or address.target > assigned.epoch + 1:
        known = assigned.epoch if assigned is not None else 0
        raise StaleRequestError(
            f"{name} has not read of epoch {address.target} of {address.task} yet, only of {known}", later=True
        )
    if address.target < assigned.epoch:
        raise StaleRequestError(
            f"epoch {address.target} of {address.task} is over: {assigned.owner} owns it under epoch {assigned.epoch}",
            later=False,
        )
    if not any(_same(layer, address.layer) for layer in _listed(assigned, address.target)):
        raise StaleRequestError(
            f"{_name(address)} is no source of epoch {address.target}", later=address.target > assigned.epoch
        )


def _listed(assigned: Assigned, target: int) -> tuple[Layer, ...]:
    if target == assigned.epoch:
        return assigned.layers
    return Layer(assigned.owner, assigned.epoch), *assigned.layers


def _same(one: Layer, other: Layer) -> bool:
    return one.holder == other.holder and one.epoch == other.epoch


def _name(address: Address) -> str:
    return f"copy {address.task}@{address.layer.epoch} of {address.layer.holder}"
