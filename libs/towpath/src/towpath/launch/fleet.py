"""Which replicas are to be started and which to be stopped, so that there are as many as the coordinator wants."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Wanted:
    """What is wanted of a stage.

    Attributes:
        replicas: how many.
        members: names of those that are to own tasks, as the coordinator has chosen.
    """

    replicas: int
    members: Collection[str] = ()


@dataclass(frozen=True)
class Changes:
    """What is to be done, in order of name."""

    start: tuple[str, ...] = ()
    retire: tuple[str, ...] = ()


def replica_name(stage: str, index: int) -> str:
    """Name of a replica that the launcher starts."""
    return f"{stage}-{index}"


def reconcile(stage: str, wanted: Wanted, working: Collection[str], leaving: Collection[str]) -> Changes:
    """Compare what is wanted with what there is.

    A name is used again only when its process is gone. Of too many, those go that the coordinator has not chosen to
    own tasks; then those with the highest index.

    Args:
        stage: the stage.
        wanted: what is wanted of it.
        working: its replicas that have not been asked to stop.
        leaving: those that have, and are still there.
    """
    missing = wanted.replicas - len(working)
    if missing >= 0:
        return Changes(start=tuple(_free(stage, missing, {*working, *leaving})))
    spare_first = sorted(working, key=lambda name: (name in wanted.members, -_index(name)))
    return Changes(retire=tuple(sorted(spare_first[:-missing], key=_index)))


def wanted_of(stage: str, desired: int | None, members: Collection[str], initial: Mapping[str, int]) -> Wanted:
    """What is wanted: what was decided, else as many as the pipeline was started with."""
    if desired is None:
        return Wanted(initial[stage])
    return Wanted(desired, members if len(members) == desired else ())


def _free(stage: str, count: int, taken: Collection[str]) -> list[str]:
    names: list[str] = []
    index = 0
    while len(names) < count:
        if replica_name(stage, index) not in taken:
            names.append(replica_name(stage, index))
        index += 1
    return names


def _index(name: str) -> int:
    return int(name.rpartition("-")[2])
