"""How a new owner asks for state: requests and answers, whatever carries them.

Two implementations: gRPC (:mod:`statemgr.sidecar.client`) and the simulated network of the tests. Nothing here waits:
a request gives a :class:`Pending`, which the owner's loop looks at when it comes by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from statemgr.control.records import Layer
from statemgr.store.base import StoreMeta
from statemgr.types import TaskId

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Address(NamedTuple):
    """What a state message is about (R8): which copy of a task, and for which owner.

    Attributes:
        task: the task.
        layer: holder and epoch of the copy.
        target: epoch of the owner that asks.
    """

    task: TaskId
    layer: Layer
    target: int


class Found(Enum):
    """What a layer knows of a key, apart from a value."""

    DELETED = "deleted"
    """Deleted in this layer: deeper layers must not be asked."""

    ABSENT = "absent"
    """Absent for certain: the layer is complete for the key's bin and does not have it."""

    UNKNOWN = "unknown"
    """Not in this layer, which is not complete for the key's bin: ask the next."""


@dataclass(frozen=True)
class Description:
    """A copy as a whole.

    Attributes:
        meta: up to where it is complete (X), its epoch, its last progress record.
        complete: 256 booleans as bits of 32 bytes, bin b at bit b % 8 of byte b // 8: bins that need no deeper layer.
        layers: what it was made of, for what is not complete.
        keys: about how many entries it has.
        bytes: about how large it is.
        beneath: changelog offset up to which the first of ``layers`` must be complete to go with it; -1: any.
    """

    meta: StoreMeta | None
    complete: bytes
    layers: tuple[Layer, ...]
    keys: int = 0
    bytes: int = 0
    beneath: int = -1


@dataclass(frozen=True)
class LookedUp:
    """Answer to a look-up: for each store key asked, in order, its value or what is known of it.

    Attributes:
        epoch: epoch of the copy.
        offset: its X.
        found: value bytes or :class:`Found`, in the order of the keys. May be shorter than asked where the answer
            would be too large; the rest is to be asked again.
    """

    epoch: int
    offset: int
    found: tuple[bytes | Found, ...]


@dataclass(frozen=True)
class Chunk:
    """A part of a copy, in store key order.

    Attributes:
        epoch: epoch of the copy.
        offset: its X.
        entries: store key → value; None: deleted in this layer.
        next: where to go on; None: this was the last part.
        complete: whether the copy needs no deeper layer for any bin of the request.
    """

    epoch: int
    offset: int
    entries: tuple[tuple[bytes, bytes | None], ...]
    next: bytes | None
    complete: bool


class KeySet(Protocol):
    """Which keys a copy may have a value of: a filter, see :mod:`statemgr.sidecar.key_filter`."""

    @property
    def epoch(self) -> int:
        """Epoch of the copy."""
        ...

    @property
    def offset(self) -> int:
        """Its X when the filter was begun."""
        ...

    def may_have(self, keys: Sequence[bytes]) -> NDArray[np.bool_]:
        """For each store key whether the copy may have a value; False: it certainly has none."""
        ...


class Pending(Protocol[T_co]):
    """An answer that is on its way."""

    def done(self) -> bool:
        """Whether it has come, or failed, or passed its deadline."""
        ...

    def result(self) -> T_co:
        """The answer.

        Raises:
            HolderUnavailableError: no answer before the deadline, or no state manager there.
            StaleRequestError: the state manager says that ``target`` is not the task's current owner, or it does not
                know of it yet; ``later`` tells which.
            NoSuchCopyError: there is no such store at the holder.
        """
        ...


class Spawn(Protocol):
    """Starts a function beside the caller, and gives what will be its result."""

    def __call__(self, work: Callable[[], T]) -> Pending[T]:
        """See the class."""
        ...


class StateClient(Protocol):
    """Asks state managers; every call returns at once."""

    def describe(self, address: Address, at_least: int, timeout_s: float) -> Pending[Description]:
        """The copy as a whole; ``at_least``: changelog offset that it must have reached (-1: any)."""
        ...

    def look_up(self, address: Address, at_least: int, keys: list[bytes], timeout_s: float) -> Pending[LookedUp]:
        """Values of store keys (bin, table id, key)."""
        ...

    def hot(self, address: Address, at_least: int, cursor: bytes, timeout_s: float) -> Pending[Chunk]:
        """The hottest entries, hottest first; ``cursor`` empty for the beginning."""
        ...

    def bins(
        self, address: Address, at_least: int, first: int, last: int, cursor: bytes, timeout_s: float
    ) -> Pending[Chunk]:
        """Entries of bins ``first`` … ``last``, tombstones included, at most 256 KiB at once."""
        ...

    def filter(self, address: Address, at_least: int, timeout_s: float) -> Pending[KeySet]:
        """A filter of the keys that the copy has values of."""
        ...

    def close(self) -> None:
        """Free connections; what is pending fails."""
        ...
