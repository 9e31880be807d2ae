"""The records of the control topic: what is decided about ownership, one key per fact.

The topic is compacted and has one partition, so the newest record of a key and its offset must say all that is still
needed of it::

    key                          value      written by
    leader                       Leader     a coordinator, as its first record
    stage/<stage>                Desired    coordinator: how many replicas, how state travels
    task/<stage>/<partition>     Assigned   coordinator: the task belongs to this owner from this epoch on
    released/<stage>/<partition> Released   the former owner, within its last transaction for the task
    done/<stage>/<partition>     Done       the owner, once it needs no other's copy any more
    fenced/<stage>/<replica>     Fenced     coordinator, after it has fenced the replica's producers

Offsets order facts: ``fenced`` counts for an assignment only if it lies behind it (R3).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

import msgspec

from statemgr.codecs import UNREADABLE
from statemgr.errors import CodecError
from statemgr.progress import Progress
from statemgr.types import TaskId


class Strategy(StrEnum):
    """How a task's state reaches its new owner: the formula *base @ X + changelog (X, end]* with another base each."""

    RESTART = "restart"
    """The whole stage stops until every task is restored: from the changelog, behind an own older store."""

    REPLAY = "replay"
    """The moved task is restored from its changelog before its first row."""

    BLOCK = "block"
    """All of the former owner's state is fetched before the first row."""

    PRECOPY = "precopy"
    """State is copied while the former owner works on; then the changelog's tail."""

    STANDBY = "standby"
    """A copy is kept ready all the time; then the changelog's tail."""

    LAZY = "lazy"
    """Keys are fetched when they are needed; bins only when the holder wants to leave."""

    HYBRID = "hybrid"
    """Hot keys first, others when needed, the rest paced in the background."""


FROM_CHANGELOG = frozenset({Strategy.RESTART, Strategy.REPLAY})
"""Strategies that take nothing from another holder."""

COPIES_FIRST = frozenset({Strategy.PRECOPY, Strategy.STANDBY})
"""Strategies whose state is copied before the move."""


class Manner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the state of a stage's tasks travels, with the switches that experiments need.

    Attributes:
        strategy: which base.
        priority: the hot set is pushed first, and bins with parked rows jump the queue.
        look_ahead: one look-up for all missing keys of a batch; off: one for each key.
        key_filter: the former owner sends a filter of its keys, so that absent ones need no look-up.
        pacing: part of the new owner's time that background bins may take, 0 … 1.
        bins: units in which the rest is moved, a power of two up to 256.
    """

    strategy: Strategy = Strategy.HYBRID
    priority: bool = True
    look_ahead: bool = True
    key_filter: bool = False
    pacing: float = 0.25
    bins: int = 256

    def __post_init__(self) -> None:
        if not 0 < self.pacing <= 1:
            raise ValueError(f"pacing={self.pacing:g} must be above 0 and at most 1")
        if self.bins not in {1, 2, 4, 8, 16, 32, 64, 128, 256}:
            raise ValueError(f"bins={self.bins} must be a power of two up to 256")


class Layer(msgspec.Struct, frozen=True):
    """A copy of a task's state at a holder: the store of one epoch, read through the holder's state manager.

    Attributes:
        holder: name of the replica on whose disk the store is.
        epoch: the store's epoch.
        address: host:port of the state manager when this was decided; heartbeats may know a newer one.
    """

    holder: str
    epoch: int
    address: str = ""


class Tenure(msgspec.Struct, frozen=True):
    """An owner and its epoch that may not have ended yet when a task was assigned anew."""

    owner: str
    epoch: int


class Leader(msgspec.Struct, frozen=True, tag="leader"):
    """A coordinator begins: every hint of a lower term is void."""

    term: int
    name: str


class Desired(msgspec.Struct, frozen=True, tag="desired"):
    """What is wanted of a stage.

    Attributes:
        stage: which.
        replicas: how many replicas own tasks; None: all that have registered.
        manner: how state travels.
        term: the coordinator's.
    """

    stage: str
    replicas: int | None
    manner: Manner
    term: int


class Assigned(msgspec.Struct, frozen=True, tag="assigned", omit_defaults=True):
    """A task belongs to ``owner`` from ``epoch`` on; it may start once every tenure in ``waits_for`` has ended.

    Attributes:
        stage: the task's stage.
        partition: the task's partition.
        epoch: raised at every change of owner.
        owner: the replica's name.
        waits_for: owners that may still be at work, oldest first.
        layers: copies to take state from, newest first, at most three; empty: the changelog alone.
        manner: how state travels.
        term: the coordinator's.
        trace: W3C trace context of the hand-over, so that everybody's spans are of one trace; empty: it is not traced.
    """

    stage: str
    partition: int
    epoch: int
    owner: str
    waits_for: tuple[Tenure, ...]
    layers: tuple[Layer, ...]
    manner: Manner
    term: int
    trace: str = ""

    @property
    def task(self) -> TaskId:
        """The task."""
        return TaskId(self.stage, self.partition)


class Released(msgspec.Struct, frozen=True, tag="released"):
    """An owner has let go of a task: part of its last transaction for it (the cut).

    Attributes:
        stage: the task's stage.
        partition: the task's partition.
        epoch: the epoch that has ended, and with it all before.
        owner: who let go.
        started: whether the owner ever ran under this epoch; if not, it passes on what its predecessor said.
        offset: changelog offset X up to which the owner's store is complete; -1: no changelog or nothing written.
        progress: where the input stands; None for a task that never ran.
        timers: bin → the earliest timer of its entries, in ms of event time, or less; bins without one are left out
            (R14). None: not known.
    """

    stage: str
    partition: int
    epoch: int
    owner: str
    started: bool
    offset: int
    progress: Progress | None
    timers: dict[int, int] | None = None

    @property
    def task(self) -> TaskId:
        """The task."""
        return TaskId(self.stage, self.partition)


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The owner of ``epoch`` has all state: copies of earlier epochs may be deleted."""

    stage: str
    partition: int
    epoch: int
    owner: str

    @property
    def task(self) -> TaskId:
        """The task."""
        return TaskId(self.stage, self.partition)


class Fenced(msgspec.Struct, frozen=True, tag="fenced"):
    """Every producer that the replica had before this record can write no more."""

    stage: str
    replica: str
    term: int


ControlRecord = Leader | Desired | Assigned | Released | Done | Fenced

_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[ControlRecord] = msgspec.json.Decoder(ControlRecord)

T = TypeVar("T")


def control_key(record: ControlRecord) -> bytes:
    """The record's key in the compacted topic."""
    match record:
        case Leader():
            key = "leader"
        case Desired(stage=stage):
            key = f"stage/{stage}"
        case Assigned(stage=stage, partition=partition):
            key = f"task/{stage}/{partition}"
        case Released(stage=stage, partition=partition):
            key = f"released/{stage}/{partition}"
        case Done(stage=stage, partition=partition):
            key = f"done/{stage}/{partition}"
        case Fenced(stage=stage, replica=replica):
            key = f"fenced/{stage}/{replica}"
    return key.encode()


def encode_control(record: ControlRecord) -> bytes:
    """The record's value: JSON, so that an operator can read it with any Kafka tool."""
    return _ENCODER.encode(record)


def decode_control(key: bytes | None, value: bytes | None) -> ControlRecord:
    """Inverse of :func:`encode_control`.

    Raises:
        CodecError: not a control record; never skipped, since it decides ownership (R19).
    """
    try:
        record = _DECODER.decode(value or b"")
    except UNREADABLE as error:
        raise CodecError(f"not a control record: key {key!r}: {error}") from error
    if control_key(record) != key:
        raise CodecError(f"not a control record: key {key!r} does not belong to {type(record).__name__}")
    return record
