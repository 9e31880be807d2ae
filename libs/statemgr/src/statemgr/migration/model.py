"""The words of an opening: what is known when a task begins, and what its store is to be made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from statemgr.control.records import Layer, Manner, Released
from statemgr.decisions import LogFacts
from statemgr.migration.ports import Description
from statemgr.migration.record import MigrationRecord
from statemgr.migration.sources import UsableLayer
from statemgr.progress import Progress
from statemgr.store.base import StoreMeta


class NoAnswer(Enum):
    """Why there is no description of a layer."""

    NOT_ASKED = "not asked"
    """Nobody has been asked, since the release may say all there is to know."""

    LOST = "no such copy, or no answer for too long"

    SILENT = "no answer"
    """Nobody answers for the holder: its machine is gone, or its state manager is being started again."""

    LATER = "refused for now"
    """The holder's state manager does not see us as owner yet."""


@dataclass(frozen=True)
class OwnStore:
    """A store of the task on this replica's disk.

    Attributes:
        epoch: its epoch.
        meta: up to where it is complete; None if nothing was ever written.
        record: its migration record; None if it needs no other copy.
    """

    epoch: int
    meta: StoreMeta | None
    record: MigrationRecord | None = None


@dataclass(frozen=True)
class LayerFacts:
    """A layer of the assignment, and what its holder said."""

    layer: Layer
    said: Description | NoAnswer


@dataclass(frozen=True)
class OpeningFacts:
    """What is known when a task begins here.

    Attributes:
        epoch: ours.
        log: the task's changelog partition, after every earlier owner has ended.
        now_ms: wall clock.
        manner: how state travels.
        own: stores on this replica's disk.
        layers: of the assignment, newest first.
        released: newest release in the control log.
        patient: whether asking again is still allowed.
    """

    epoch: int
    log: LogFacts
    now_ms: int
    manner: Manner
    own: Sequence[OwnStore] = ()
    layers: Sequence[LayerFacts] = ()
    released: Released | None = None
    patient: bool = True


@dataclass(frozen=True)
class Reopen:
    """Go on with the store of this epoch, from this changelog offset.

    Attributes:
        from_offset: first offset of the tail.
        record: its migration record; its tail then leaves tombstones. None: it is complete.
        sources: layers of the record that may be asked, with what is known of them.
    """

    from_offset: int
    record: MigrationRecord | None
    sources: tuple[UsableLayer, ...] = ()


@dataclass(frozen=True)
class OwnBase:
    """Copy the own complete store of a former epoch, and read the tail from this offset into the copy."""

    epoch: int
    from_offset: int


@dataclass(frozen=True)
class Layers:
    """Begin with an empty store over layers.

    Attributes:
        sources: the top, then deeper layers that may be asked.
        meta: meta record that the new store begins with.
        tail: whether the changelog behind ``meta.offset`` must be read into it, with tombstones, before the first row.
    """

    sources: tuple[UsableLayer, ...]
    meta: StoreMeta
    tail: bool

    @property
    def progress(self) -> Progress | None:
        """Progress record at ``meta.offset``."""
        return self.meta.progress


@dataclass(frozen=True)
class Replay:
    """Restore from the changelog, with whatever own store is a base for that."""

    reason: str


@dataclass(frozen=True)
class AskAgain:
    """Nothing can be decided yet."""

    reason: str


Opening = Reopen | OwnBase | Layers | Replay | AskAgain
