"""Logging of stages and coordinators; see :mod:`statemgr.logs`."""

from __future__ import annotations

from statemgr import logs
from towpath.errors import SettingsError


def configure_logging(**who: str) -> None:
    """Set up logging, with ``who`` (query, stage, replica, …) on every line.

    Raises:
        SettingsError: the environment asks for a format that there is not.
    """
    try:
        logs.configure_logging(**who)
    except ValueError as error:
        raise SettingsError(str(error)) from error
