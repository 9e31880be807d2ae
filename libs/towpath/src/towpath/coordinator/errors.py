"""Errors of the coordinator and of those that talk to it.

::

    CoordinatorError               (TowpathError)
    ├── CoordinatorUnavailableError  (ConnectionError) nobody answers at the URL: try again, or name another
    ├── NotLeadingError              (RuntimeError) another coordinator leads, or none can yet: ask again later
    ├── RefusedError                 (ValueError) a request that can't be carried out: exit 2, with the reason
    │   └── UnknownNameError         (LookupError) it is about a replica or state manager that nobody has heard of
    ├── FenceError                   (TimeoutError) a replica could not be fenced in time: the next turn tries again
    └── PlatformError                (RuntimeError) what runs the replicas does not answer or refuses: tried again
"""

from __future__ import annotations

from typing import ClassVar

from towpath.errors import TowpathError


class CoordinatorError(TowpathError):
    """Base of the coordinator's errors."""


class CoordinatorUnavailableError(CoordinatorError, ConnectionError):
    """Nobody answered at the coordinator's URL before the deadline."""


class NotLeadingError(CoordinatorError, RuntimeError):
    """This coordinator does not lead now, so it takes no requests."""


class RefusedError(CoordinatorError, ValueError):
    """A request names something that there is not, or contradicts what there is."""

    exit_status: ClassVar[int] = 2


class UnknownNameError(RefusedError, LookupError):
    """A replica or state manager that the coordinator does not know."""


class FenceError(CoordinatorError, TimeoutError):
    """No definite answer to a fence before the deadline; the replica may still write."""


class PlatformError(CoordinatorError, RuntimeError):
    """What runs the replicas can't be asked how many there are to be, or refuses to change that."""
