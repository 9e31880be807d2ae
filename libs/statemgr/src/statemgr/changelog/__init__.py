"""The changelog of a stage: what alone can rebuild every task (R22)."""

from statemgr.changelog.model import Clock, RestoredTask, RestoreProgress, RestoreSettings, Source, SystemClock
from statemgr.changelog.restore import restore

__all__ = [
    "Clock",
    "RestoreProgress",
    "RestoreSettings",
    "RestoredTask",
    "Source",
    "SystemClock",
    "restore",
]
