"""Errors of the runtime: one exception = one situation = one reaction. Those of the state library stand beside them.

::

    TowpathError
    ├── SettingsError          (ValueError) a setting is wrong: stop at start with one line, exit 2
    ├── QueryError             (ValueError) a query can't be planned, see ``towpath.query.errors``: the same, exit 2
    ├── BrokerError, JarsError (RuntimeError) the local broker, see ``towpath.broker.errors``, ``towpath.jars.errors``
    ├── StageStoppedError      a stage can't go on without an operator's decision: exit 1 with one line
    └── IllegalTransitionError (RuntimeError) a state machine was asked for a step that its picture lacks: a bug
"""

from __future__ import annotations


class TowpathError(Exception):
    """Base of all errors of the runtime."""


class SettingsError(TowpathError, ValueError):
    """A setting is missing or wrong; the text names it and the remedy."""


class StageStoppedError(TowpathError):
    """A stage stopped because going on would lose or double data."""


class IllegalTransitionError(TowpathError, RuntimeError):
    """A state machine was asked for an illegal transition."""
