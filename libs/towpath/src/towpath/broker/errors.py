"""Why a local broker can't do what was asked: one exception for one situation.

::

    BrokerError (TowpathError, RuntimeError)
    ├── BrokerUsageError                 the caller has to change something (exit 2)
    │   ├── BrokerSettingError (ValueError)  a heap, port or property that can't be → correct it
    │   ├── PortTakenError               another program listens there   → other port, or 0
    │   ├── DataDirError                 the directory can't be written   → another directory
    │   ├── DiskFullError                too little space for data        → free some
    │   ├── BrokerRunningError           a broker with other wishes runs  → stop it first
    │   └── BrokerNotRunningError        there is none                    → start it
    ├── BrokerStartError                 the JVM ended before it was ready (exit 1)
    ├── BrokerDeadlineError (TimeoutError)  it isn't ready, or gone, in time (exit 1)
    └── BrokerDiedError                  it ended while it was being run (exit 1)

A missing or old Java and a failed download are `towpath.jars.JarsError`.
"""

from typing import ClassVar

from towpath.errors import TowpathError

__all__ = [
    "BrokerDeadlineError",
    "BrokerDiedError",
    "BrokerError",
    "BrokerNotRunningError",
    "BrokerRunningError",
    "BrokerSettingError",
    "BrokerStartError",
    "BrokerUsageError",
    "DataDirError",
    "DiskFullError",
    "PortTakenError",
]


class BrokerError(TowpathError, RuntimeError):
    """A local broker can't do what was asked; the text says cause and remedy."""


class BrokerUsageError(BrokerError):
    """The caller has to change something before it can work."""

    exit_status: ClassVar[int] = 2


class BrokerSettingError(BrokerUsageError, ValueError):
    """A heap size, port or broker property that can't be used."""


class PortTakenError(BrokerUsageError):
    """The port that was asked for can't be listened on."""


class DataDirError(BrokerUsageError):
    """The data directory can't be created, read or written."""


class DiskFullError(BrokerUsageError):
    """The disk of the data directory is (nearly) full."""


class BrokerRunningError(BrokerUsageError):
    """A broker runs on this data directory already, and not as asked."""


class BrokerNotRunningError(BrokerUsageError):
    """No broker runs on this data directory."""


class BrokerStartError(BrokerError):
    """The broker's JVM ended before it was ready."""


class BrokerDeadlineError(BrokerError, TimeoutError):
    """The broker isn't ready, or isn't gone, within its deadline."""


class BrokerDiedError(BrokerError):
    """The broker ended without being asked to."""
