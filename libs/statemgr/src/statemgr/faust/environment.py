"""What the environment says of a worker: where its state lies, and where its state manager listens.

| variable | meaning | default |
|---|---|---|
| ``STATEMGR_DIRECTORY`` | directory of the worker's stores | ``statemgr`` in Faust's directory of tables |
| ``STATEMGR_HOST`` | address at which its state manager listens | ``127.0.0.1`` |
| ``STATEMGR_ADVERTISE`` | host under which other workers reach it | ``STATEMGR_HOST``, or this machine's name |
| ``STATEMGR_EXTERNAL`` | ``1``: the state manager is started by others | the worker starts one |
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statemgr.faust.beside import Manners
from statemgr.faust.slots import NAME

DIRECTORY = "STATEMGR_DIRECTORY"
HOST = "STATEMGR_HOST"
ADVERTISE = "STATEMGR_ADVERTISE"
EXTERNAL = "STATEMGR_EXTERNAL"

ABSENCE_MARGIN_S = 30.0
"""A killed worker is missed by its group after its session time-out; its partitions are taken over some seconds
later."""


@dataclass(frozen=True)
class Environment:
    """See the module."""

    directory: Path
    manners: Manners

    @classmethod
    def of(cls, app: Any, variables: Mapping[str, str] = os.environ) -> Environment:
        """For an application."""
        directory = variables.get(DIRECTORY, "")
        return cls(
            directory=Path(directory) if directory else Path(app.conf.tabledir) / NAME,
            manners=Manners(
                host=variables.get(HOST, "") or "127.0.0.1",
                advertise=variables.get(ADVERTISE, ""),
                external=variables.get(EXTERNAL, "") not in {"", "0"},
                absent_s=float(app.conf.broker_session_timeout) + ABSENCE_MARGIN_S,
            ),
        )
