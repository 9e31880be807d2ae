"""A deadline for client calls that can overrun, or wait for ever beyond, the time-out that they are given."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future


def within(timeout_s: float, call: Callable[[], object]) -> None:
    """Run a call in a thread of its own, and give it up at the deadline.

    The thread of a call that was given up goes on as a daemon; whatever the call works on must not be used again.
    Costs about 0.1 ms.

    Raises:
        TimeoutError: the call has not ended after ``timeout_s``.
        Exception: what the call raised.
    """
    done: Future[object] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            done.set_exception(error)

    threading.Thread(target=run, name="kafka-call", daemon=True).start()
    done.result(timeout_s)
