"""What the environment says of a worker: where its state lies, and where its state manager listens.

| variable | meaning | default |
|---|---|---|
| ``STATEMGR_DIRECTORY`` | directory of the worker's stores | ``statemgr`` in Faust's directory of tables |
| ``STATEMGR_HOST`` | address at which its state manager listens | ``127.0.0.1`` |
| ``STATEMGR_ADVERTISE`` | host under which other workers reach it | ``STATEMGR_HOST``, or this machine's name |
| ``STATEMGR_EXTERNAL`` | ``1``: the state manager is started by others | the worker starts one |

Credentials are those of all services (:mod:`statemgr.security`): ``TOWPATH_TOKEN_FILE`` and the others. A worker shows
them to state managers, and its own demands them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statemgr.faust.beside import Manners
from statemgr.faust.slots import NAME
from statemgr.security import Credentials, check_listening, read_credentials
from statemgr.sidecar.server import WHAT

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
    credentials: Credentials

    @classmethod
    def of(cls, app: Any, variables: Mapping[str, str] = os.environ) -> Environment:
        """For an application.

        Raises:
            SecurityError: credentials are wrong, or missing where others reach the state manager.
        """
        directory, host = variables.get(DIRECTORY, ""), variables.get(HOST, "") or "127.0.0.1"
        external = variables.get(EXTERNAL, "") not in {"", "0"}
        credentials = read_credentials(variables)
        if not external:
            check_listening(host, credentials, WHAT)
        return cls(
            directory=Path(directory) if directory else Path(app.conf.tabledir) / NAME,
            manners=Manners(
                host=host,
                advertise=variables.get(ADVERTISE, ""),
                external=external,
                absent_s=float(app.conf.broker_session_timeout) + ABSENCE_MARGIN_S,
            ),
            credentials=credentials,
        )
