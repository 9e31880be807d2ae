"""The memory allocator of the processes that handle records.

A record is allocated by a thread of the Kafka client and freed by the stage's own. glibc's allocator locks for that;
with tcmalloc, reading and decoding 20,000 records a batch took two thirds of the time (docs/decisions/0010). So the
processes get it where the system has it, by ``LD_PRELOAD``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from ctypes.util import find_library

LIBRARY = "tcmalloc_minimal"
"""Debian's package ``libtcmalloc-minimal4``."""

SETTING = "TOWPATH_ALLOCATOR"
"""``auto`` (default), or ``system``: what the system gives every process."""


def with_allocator(
    environment: Mapping[str, str], find: Callable[[str], str | None] = find_library, platform: str = sys.platform
) -> dict[str, str]:
    """A process's environment with the allocator; unchanged where it can't be had, or where one is chosen already."""
    given = dict(environment)
    if given.get(SETTING, "auto") == "system" or "LD_PRELOAD" in given or platform != "linux":
        return given
    found = find(LIBRARY)
    return given if found is None else {**given, "LD_PRELOAD": found}
