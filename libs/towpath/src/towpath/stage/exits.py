"""How the process of a replica ends: its exit statuses, and what becomes of an error that nobody foresaw."""

from __future__ import annotations

import sys
from collections.abc import Callable

import structlog

from statemgr.errors import StateError
from towpath.errors import TowpathError

log = structlog.get_logger()

EXIT_OK = 0
EXIT_STOPPED = 1

EXIT_CRASHED = 70
"""EX_SOFTWARE of sysexits.h: an error that nobody foresaw. Python's own 1 would say that a restart does not help."""

CRASH_PAUSE_S = 5.0
"""Rest before the process of a crashed replica ends.

Supervisord starts a process again at once. An error that comes back at every start would otherwise keep a core busy
with loading the runtime, which takes a second, and take the tasks' transactional ids away from their owner as often.
"""


def survive(run: Callable[[], int], pause: Callable[[float], object]) -> int:
    """Run a replica; turn an unforeseen error into one log line, a pause and a status that asks for a restart.

    Args:
        run: gives the exit status.
        pause: waits so many seconds, or until the process is asked to stop.

    Raises:
        StateError, TowpathError: as they came; they name cause and remedy.
    """
    try:
        return run()
    except (StateError, TowpathError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and not _is_panic(error):
            raise
        kind, text = type(error).__name__, " ".join(str(error).split())  # those of Polars have many lines
        log.error(f"crashed: {kind}: {text}; a supervisor starts it again", kind=kind, exc_info=True)
    pause(CRASH_PAUSE_S)
    return EXIT_CRASHED


def _is_panic(error: BaseException) -> bool:
    """Whether it is a panic of Polars, which is no Exception; not every process here has loaded Polars."""
    polars = sys.modules.get("polars")
    return polars is not None and isinstance(error, polars.exceptions.PanicException)
