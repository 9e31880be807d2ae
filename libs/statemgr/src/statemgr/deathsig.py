"""Ties a process to its parent, so that a killed launcher leaves no process behind (Linux)."""

from __future__ import annotations

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1
"""From ``linux/prctl.h``: the signal that a process gets when its parent dies."""


def die_with_parent() -> None:
    """Ask the kernel to send SIGTERM to this process when its parent dies; does nothing elsewhere."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
