"""Maven coordinates, and what a set of them is called in the cache."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Coordinate", "parse_coordinates", "request_name"]

_PART = re.compile(r"[A-Za-z0-9_.\-]+")
_DIGITS = 12
"""Hex digits of the request's hash: 48 bits, far beyond the handful of sets a user ever has."""


@dataclass(frozen=True, slots=True, order=True)
class Coordinate:
    """One artifact of a Maven repository: `group:artifact:version`."""

    group: str
    artifact: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


def parse_coordinates(texts: Sequence[str]) -> tuple[Coordinate, ...]:
    """Reads `group:artifact:version` texts.

    Raises:
        ValueError: If there are none, or one is not of that form.
    """
    if not texts:
        raise ValueError("no coordinates: at least one group:artifact:version is needed")
    return tuple(_parse(text) for text in texts)


def request_name(cache_name: str, coordinates: Sequence[Coordinate], *, transitive: bool) -> str:
    """Names the cache directory of a request, so that another pin never meets older jars."""
    request = "\n".join([*sorted(map(str, coordinates)), f"transitive={transitive}"])
    return f"{cache_name}-{hashlib.sha256(request.encode()).hexdigest()[:_DIGITS]}"


def _parse(text: str) -> Coordinate:
    parts = text.split(":")
    if len(parts) != 3 or not all(_PART.fullmatch(part) for part in parts):
        raise ValueError(f"{text!r} is not group:artifact:version")
    return Coordinate(*parts)
