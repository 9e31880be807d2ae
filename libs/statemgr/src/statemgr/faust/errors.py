"""Errors of the driver for Faust."""

from __future__ import annotations

from statemgr.errors import StateError


class StateUnavailableError(StateError, RuntimeError):
    """A table's state can't be had, so that the event must not be processed here: the worker stops, the event stays."""
