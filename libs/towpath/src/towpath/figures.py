"""Figures that may fail: whoever is measured goes on as if nobody had counted.

The library that keeps the figures can raise at any call, for example where it is told to keep them in files and the
disk is full. Ownership, commits and fences must not depend on that.
"""

from __future__ import annotations

from typing import Any

import structlog

log = structlog.get_logger()


class Figure:
    """A series of figures, or a family of them by labels.

    Args:
        series: a counter, gauge or histogram of ``prometheus_client``; None: it could not be made.
    """

    said = False
    """Whether this process has told that figures are missing: once is enough."""

    __slots__ = ("_series",)

    def __init__(self, series: Any) -> None:
        self._series = series

    def labels(self, *values: str, **named: str) -> Figure:
        """The series with these labels."""
        return Figure(self._try("labels", *values, **named))

    def inc(self, amount: float = 1) -> None:
        """Count up."""
        self._try("inc", amount)

    def set(self, value: float) -> None:
        """Set a gauge."""
        self._try("set", value)

    def observe(self, value: float) -> None:
        """Add to a histogram."""
        self._try("observe", value)

    def remove(self, *values: str) -> None:
        """Remove the series with these labels, if there is one."""
        self._try("remove", *values)

    def clear(self) -> None:
        """Remove all series of a family."""
        self._try("clear")

    def _try(self, call: str, *args: Any, **named: Any) -> Any:
        if self._series is None:
            return None
        try:
            return getattr(self._series, call)(*args, **named)
        except KeyError:  # nothing to remove
            return None
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not reach what is measured
            self._say(error)
            return None

    @staticmethod
    def _say(error: Exception) -> None:
        if not Figure.said:
            Figure.said = True
            log.warning("figures are missing from /metrics, everything else goes on", cause=repr(error))
