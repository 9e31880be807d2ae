"""Requests beside the launcher's loop, which nobody waits for when it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def beside(work: Callable[[], T]) -> Future[T]:
    """A :class:`~statemgr.migration.ports.Spawn` by a thread that does not keep the process from ending."""
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again by whoever takes the result
            answer.set_exception(error)

    threading.Thread(target=run, name="request", daemon=True).start()
    return answer
