"""Errors of the runtime: one exception = one situation = one reaction. Those of the state library stand beside them.

::

    TowpathError
    ├── SettingsError            (ValueError) a setting is wrong: stop at start with one line, exit 2
    ├── QueryError               (ValueError) a query can't be planned, see ``towpath.query.errors``: the same, exit 2
    ├── BrokerError, JarsError   (RuntimeError) the local broker, see ``towpath.broker.errors``, ``towpath.jars.errors``
    ├── RegistryUnavailableError (TimeoutError) no schema registry answers: records wait; at start stop by name
    ├── StageStoppedError        a stage can't go on without an operator's decision: exit 1 with one line
    └── IllegalTransitionError   (RuntimeError) a state machine was asked for a step that its picture lacks: a bug
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar


class TowpathError(Exception):
    """Base of all errors of the runtime."""

    exit_status: ClassVar[int] = 1
    """Status of a command that ends with this error: 2 where its call has to be changed first."""


class SettingsError(TowpathError, ValueError):
    """A setting is missing or wrong; the text names it and the remedy."""

    exit_status: ClassVar[int] = 2


class StageStoppedError(TowpathError):
    """A stage stopped because going on would lose or double data."""


class RegistryUnavailableError(TowpathError, TimeoutError):
    """A schema registry does not answer, or not as one does: what needs it has to wait.

    Attributes:
        again_s: monotonic time from which it may be asked again.
        refused: whether it answered that this client may not ask.
    """

    def __init__(self, message: str, again_s: float, *, refused: bool = False) -> None:
        super().__init__(message)
        self.again_s = again_s
        self.refused = refused


class IllegalTransitionError(TowpathError, RuntimeError):
    """A state machine was asked for an illegal transition."""


def nearest(name: str, known: Iterable[str]) -> str:
    """``"; did you mean 'x'?"`` if a known name resembles it, else nothing."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
