"""Answers that are there already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from statemgr.errors import StateError

T = TypeVar("T")


class Answered(Generic[T]):
    """A :class:`statemgr.migration.ports.Pending` that has come."""

    def __init__(self, answer: T) -> None:
        self._answer = answer

    def done(self) -> bool:
        """It has."""
        return True

    def result(self) -> T:
        """The answer."""
        return self._answer


class Failed(Generic[T]):
    """A :class:`statemgr.migration.ports.Pending` that has failed."""

    def __init__(self, error: StateError) -> None:
        self._error = error

    def done(self) -> bool:
        """It has."""
        return True

    def result(self) -> T:
        """Raises the error."""
        raise self._error


def attempt(call: Callable[[], T]) -> Answered[T] | Failed[T]:
    """What a call gives, or the error by which it says why not."""
    try:
        return Answered(call())
    except StateError as error:
        return Failed(error)
