"""The changelog of a stage: what alone can rebuild every task (R22)."""

from statemgr.changelog.catch_up import catch_up
from statemgr.changelog.model import RestoredTask, RestoreProgress, RestoreSettings, Source
from statemgr.changelog.restore import restore

__all__ = [
    "RestoreProgress",
    "RestoreSettings",
    "RestoredTask",
    "Source",
    "catch_up",
    "restore",
]
