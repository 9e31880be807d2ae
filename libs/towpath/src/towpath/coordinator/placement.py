"""Which replica should own which task: balanced, and with as few moves as that allows.

Every member gets floor or ceiling of its share (so most and fewest differ by at most one), those that already have
most get the larger ones, and each keeps as many of its own as its share admits. No member is ever left out, however
many there are and whoever came back (the capacity ``ceil(tasks / members)`` of some sticky assignors does that).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

_NOTHING: Mapping[int, str] = {}


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key by which ``count-2`` comes before ``count-10``."""
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name) if part)


def place(
    partitions: Sequence[int],
    members: Iterable[str],
    current: Mapping[int, str],
    *,
    pinned: Mapping[int, str] = _NOTHING,
    preferred: Mapping[int, str] = _NOTHING,
) -> dict[int, str]:
    """Owner of every partition; nothing where there is no member.

    Args:
        partitions: all tasks of the stage.
        members: replicas that are to own tasks.
        current: owners as they are; missing or no member: to be placed.
        pinned: owners that somebody asked for; the others are balanced around them.
        preferred: where a task goes if it has to move and there is room: who has a copy of its state.
    """
    names = sorted(set(members), key=natural)
    if not names:
        return {}
    fixed = {partition: pinned[partition] for partition in partitions if pinned.get(partition) in names}
    free = [partition for partition in partitions if partition not in fixed]
    held = {name: [partition for partition in free if current.get(partition) == name] for name in names}
    room = _shares(names, held, Counter(fixed.values()), len(free))
    needy = {name for name in names if room[name] > len(held[name])}
    placed = dict(fixed)
    for name in names:
        for partition in _kept(held[name], room[name], preferred, needy):
            placed[partition] = name
            room[name] -= 1
    return placed | _hand_out([partition for partition in free if partition not in placed], names, room, preferred)


def stand_ins(
    partitions: Iterable[int], members: Iterable[str], owners: Mapping[int, str], current: Mapping[int, str]
) -> dict[int, str]:
    """A replica beside the owner for every partition, to hold a copy of its state; evenly, and kept if possible."""
    names = sorted(set(members), key=natural)
    chosen = {
        partition: current[partition]
        for partition in partitions
        if current.get(partition) in names and current[partition] != owners.get(partition)
    }
    load = Counter(chosen.values())
    for partition in partitions:
        others = [name for name in names if name != owners.get(partition)]
        if partition in chosen or not others:
            continue
        chosen[partition] = min(others, key=load.__getitem__)
        load[chosen[partition]] += 1
    return chosen


def _shares(
    names: Sequence[str], held: Mapping[str, Sequence[int]], fixed: Mapping[str, int], free: int
) -> dict[str, int]:
    """How many of the free partitions each member gets: one after the other to whoever has least.

    Among equals the one that can fill it with a partition that it has already, so the last, incomplete round goes to
    those that keep something by it.
    """
    share = dict.fromkeys(names, 0)
    for _ in range(free):
        least = min(names, key=lambda name: (share[name] + fixed.get(name, 0), share[name] - len(held[name])))
        share[least] += 1
    return share


def _kept(held: Sequence[int], room: int, preferred: Mapping[int, str], needy: set[str]) -> list[int]:
    """What a member keeps; it gives up first what another, who needs something, has a copy of."""
    return sorted(held, key=lambda partition: (preferred.get(partition) in needy, partition))[:room]


def _hand_out(
    partitions: Sequence[int], names: Sequence[str], room: dict[str, int], preferred: Mapping[int, str]
) -> dict[int, str]:
    placed: dict[int, str] = {}
    for partition in partitions:
        name = preferred.get(partition)
        if name is not None and room.get(name, 0) > 0:
            placed[partition] = name
            room[name] -= 1
    for partition in partitions:
        if partition not in placed:
            name = max(names, key=room.__getitem__)
            placed[partition] = name
            room[name] -= 1
    return placed
