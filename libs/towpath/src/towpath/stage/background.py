"""Work that would hold up a replica's loop, done beside it: restores, opening and closing of stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

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


class After(Generic[T]):
    """A :class:`~statemgr.migration.ports.Pending` of work that begins once others are done; to be looked at.

    Args:
        before: what it waits for, without a thread; how that ends is the work's business.
        spawn: runs the work.
        work: what is to be done.
    """

    def __init__(self, before: Sequence[Pending[Any]], spawn: Callable[..., Pending[T]], work: Callable[[], T]) -> None:
        self._before = before
        self._spawn = spawn
        self._work = work
        self._begun: Pending[T] | None = None
        self.done()

    def done(self) -> bool:
        """Whether the work is done; begins it when it may."""
        if self._begun is None and all(pending.done() for pending in self._before):
            self._begun = self._spawn(self._work)
        return self._begun is not None and self._begun.done()

    def result(self) -> T:
        """The work's result, or its error."""
        if self._begun is None:
            raise RuntimeError("work was asked for its result before it began")
        return self._begun.result()


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
