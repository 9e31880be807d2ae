"""Bookkeeping of live scans, shared by all stores."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from types import TracebackType

from statemgr.errors import OpenScanError, StoreClosedError

Pairs = Generator[tuple[bytes, bytes], None, None]


class ScanGuard:
    """Counts live scans of one store and knows whether it is closed."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._live = 0
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether the store is closed."""
        return self._closed

    def check_open(self) -> None:
        """Raise StoreClosedError if the store is closed."""
        if self._closed:
            raise StoreClosedError(f"the store {self._name} is closed; open it again before use")

    def mark_closed(self) -> bool:
        """Mark the store closed; False if it was already.

        Raises:
            OpenScanError: a scan is live.
        """
        if self._live:
            raise OpenScanError(
                f"the store {self._name} has {self._live} live scan(s); leave their 'with' blocks before close()"
            )
        was_open, self._closed = not self._closed, True
        return was_open

    def enter(self) -> None:
        """A scan has begun."""
        self._live += 1

    def leave(self) -> None:
        """A scan ends."""
        self._live -= 1


class Scan:
    """A scan as a context manager: holds nothing before it is entered, and nothing after it is left."""

    def __init__(self, guard: ScanGuard, start: Callable[[], Pairs]) -> None:
        self._guard = guard
        self._start = start
        self._pairs: Pairs | None = None

    def __enter__(self) -> Iterator[tuple[bytes, bytes]]:
        self._guard.check_open()
        self._pairs = self._start()
        self._guard.enter()
        return self._pairs

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pairs is not None:
            self._pairs.close()
            self._pairs = None
            self._guard.leave()
