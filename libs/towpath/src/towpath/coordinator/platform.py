"""What runs the replicas, as far as the coordinator knows: how many of each stage it is to run, by its own word."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_ORDINAL = re.compile(r".*-(\d+)")


@dataclass(frozen=True)
class Platform:
    """What a platform said lately, one that numbers replicas from 0 and takes the highest away first (a StatefulSet).

    Attributes:
        sizes: stage → how many replicas it is to run; a stage of which it has said nothing lately is not among them.
        problem: why it could not be asked, or refused, in one line; empty: all is well.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""


NO_PLATFORM = Platform()
"""Where replicas are started by somebody whom the coordinator does not ask: a launcher, Compose, a person."""


def ordinal(replica: str) -> int | None:
    """The number that a platform gave to a replica; None: its name has none.

    Example: 2 of ``count-2``.
    """
    found = _ORDINAL.fullmatch(replica)
    return int(found[1]) if found is not None else None
