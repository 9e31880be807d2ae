"""How the processes write their log: text for people, or one JSON object a line for machines."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import StrEnum

SETTING = "TOWPATH_LOG_FORMAT"
"""From the environment alone, so that it holds for every process that another one starts."""


class LogFormat(StrEnum):
    """The form of a line."""

    TEXT = "text"
    """``<time> [level] what happened key=value …``."""

    JSON = "json"
    """One object: ``timestamp``, ``level``, ``event``, who says it, and what it is about."""


def log_format(environment: Mapping[str, str] = os.environ) -> LogFormat:
    """The format that the environment asks for.

    Raises:
        ValueError: it asks for one that there is not.
    """
    asked = environment.get(SETTING) or LogFormat.TEXT
    try:
        return LogFormat(asked)
    except ValueError:
        raise ValueError(f"{SETTING}={asked}: there is {' and '.join(LogFormat)}") from None
