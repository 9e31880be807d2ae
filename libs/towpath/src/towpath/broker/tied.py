"""Becomes a program that ends with its parent: `python tied.py PARENT_PID PROGRAM [ARGUMENT …]`.

Linux only. The kernel sends SIGTERM to this process when the *thread* that started it ends. It is
a program of its own because asking for that between fork and exec of a process with threads (as
the Kafka client's) may deadlock. It is run by path, without this package.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""From `linux/prctl.h`: the signal that a process gets when its parent dies."""


def main() -> None:
    """Ties this process to its parent and becomes the program."""
    parent, *command = sys.argv[1:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))
    if os.getppid() != int(parent):
        sys.exit(1)  # the parent died before the request: no signal would ever come
    os.execv(command[0], command)  # noqa: S606 - the parent's command, no shell


if __name__ == "__main__":
    main()
