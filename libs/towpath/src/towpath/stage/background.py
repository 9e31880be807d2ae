"""Work that would hold up a replica's loop, done beside it: restores, opening and closing of stores."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from statemgr.migration.ports import Pending

T = TypeVar("T")

THREADS = 2
"""One long restore must not hold up a store that only needs to be opened. Scratch bases, of which a
lost holder needs many at once, are made by a pool of their own."""


class Background:
    """A :class:`~statemgr.migration.ports.Spawn` by threads."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix=name)
        self._closed = False

    def __call__(self, work: Callable[[], T]) -> Pending[T]:
        """Start ``work`` in a thread."""
        return _Running(self._pool.submit(work))

    def is_closed(self) -> bool:
        """Whether what still runs is in vain."""
        return self._closed

    def close(self) -> None:
        """Start nothing more; what runs must notice by itself that it is to stop."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)


class _Running(Generic[T]):
    def __init__(self, future: Future[T]) -> None:
        self._future = future

    def done(self) -> bool:
        return self._future.done()

    def result(self) -> T:
        return self._future.result(0)


class Finished(Generic[T]):
    """A :class:`~statemgr.migration.ports.Pending` that has its result, or its error, already."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._error: Exception | None = None
        try:
            self._value = work()
        except Exception as error:  # noqa: BLE001 - raised again by result()
            self._error = error

    def done(self) -> bool:
        """Always true."""
        return True

    def result(self) -> T:
        """The result, or the error."""
        if self._error is not None:
            raise self._error
        return self._value


def at_once(work: Callable[[], T]) -> Pending[T]:
    """A :class:`~statemgr.migration.ports.Spawn` that runs the work within the call, without threads."""
    return Finished(work)
