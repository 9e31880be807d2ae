"""Runs a coroutine up to where it asks for an event.

The coroutine's awaits are passed on to the event loop, as if the driving task awaited them itself; the one exception is
:class:`Asked`, at which the coroutine stays suspended until it is driven again, by the same or another task.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any


class Asked:
    """Awaited by a stream that has no event."""

    def __await__(self) -> Generator[Asked, None, None]:
        yield self


class UntilAsked:
    """Awaitable: True when the coroutine has ended, False when it asks for an event; raises what it raises."""

    def __init__(self, running: Coroutine[Any, Any, None]) -> None:
        self._running = running

    def __await__(self) -> Generator[Any, Any, bool]:
        thrown: BaseException | None = None
        while True:
            try:
                waits_for = self._running.send(None) if thrown is None else self._running.throw(thrown)
            except StopIteration:
                return True
            if isinstance(waits_for, Asked):
                return False
            thrown = None
            try:
                yield waits_for
            except BaseException as error:  # noqa: BLE001  # whatever the loop throws is for the coroutine
                thrown = error
