"""Runs stages and whole queries without a broker, threads or sleeps; see :class:`StageDriver`."""

from towpath.testing.driver import StageDriver, StillBusyError
from towpath.testing.records import Record
from towpath.testing.stores import FaultyBackend

__all__ = ["FaultyBackend", "Record", "StageDriver", "StillBusyError"]
