"""In which order bins are fetched, and what is asked of whom for each: pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from statemgr.layout import BIN_COUNT
from statemgr.migration.ports import Chunk


@dataclass(frozen=True)
class Run:
    """Bins ``first`` … ``last``, to be had from one source.

    Attributes:
        index: place of the source.
        cursor: where to go on; empty: at the beginning.
        complete: what the chunks so far said of the copy: whether it needs no deeper layer; None before the first.
    """

    first: int
    last: int
    index: int
    cursor: bytes = b""
    complete: bool | None = None

    def from_start(self, index: int) -> Run:
        """The same bins from the beginning, of the source at ``index``."""
        return Run(self.first, self.last, index)

    def single_bins(self) -> list[Run]:
        """Each bin by itself, from the beginning, of the same source."""
        return [Run(bin_, bin_, self.index) for bin_ in range(self.first, self.last + 1)]


def after_chunk(run: Run, chunk: Chunk, bottom: int) -> list[Run]:
    """What remains to be asked for a run once this chunk of it has come; nothing: its bins are complete.

    A copy may become complete for a bin while it is read, and its tombstones for that bin then go: a deeper layer
    must be asked only if the copy was incomplete all along, and must not be asked if it was complete all along. Where
    its chunks differ the run begins again; where a run of several bins is not complete as a whole, each bin is asked
    by itself, so that the answer is exact.

    Args:
        run: as it was asked.
        chunk: the answer.
        bottom: place of the scratch base, which is complete.
    """
    if run.complete is not None and chunk.complete != run.complete:
        return [run.from_start(run.index)]
    if chunk.next is not None:
        return [replace(run, cursor=chunk.next, complete=chunk.complete)]
    if chunk.complete or run.index >= bottom:
        return []
    if run.last > run.first:
        return run.single_bins()
    return [run.from_start(run.index + 1)]


class BinPlan:
    """Units of bins that have not been begun, urgent ones first, else in index order (R9).

    Args:
        incomplete: tells of a bin whether it is still to be had.
        units: in how many units all bins are cut.
    """

    def __init__(self, incomplete: Callable[[int], bool], units: int) -> None:
        self._incomplete = incomplete
        self._width = BIN_COUNT // units
        self._waiting = deque(unit for unit in range(units) if self._open(unit))
        self._urgent: deque[int] = deque()
        self._wanted: deque[int] = deque()

    @property
    def wanted(self) -> bool:
        """Whether a unit waits that is to be fetched at once."""
        return bool(self._wanted)

    def want(self, bins: Iterable[int]) -> None:
        """Let the units of these bins come first, and even if no others are fetched."""
        for unit in dict.fromkeys(bin_ // self._width for bin_ in bins):
            for waiting in (self._waiting, self._urgent):
                if unit in waiting:
                    waiting.remove(unit)
                    self._wanted.append(unit)

    def hasten(self, bins: Iterable[int]) -> None:
        """Let the units of these bins jump the queue."""
        for unit in dict.fromkeys(bin_ // self._width for bin_ in bins):
            if unit in self._waiting:
                self._waiting.remove(unit)
                self._urgent.append(unit)

    def next(self, whole: Callable[[int], bool], *, wanted_only: bool = False) -> list[Run]:
        """The next unit as runs from the newest layer; nothing: all have been begun.

        Args:
            whole: tells of a bin whether the newest layer is known to be complete for it; bins that may need deeper
                layers are asked one by one.
            wanted_only: leave out what :meth:`want` has not named.
        """
        queues = (self._wanted,) if wanted_only else (self._wanted, self._urgent, self._waiting)
        while queue := next(filter(None, queues), None):
            bins = self._open(queue.popleft())
            if len(bins) == self._width and all(map(whole, bins)):
                return [Run(bins[0], bins[-1], 0)]
            if bins:
                return [Run(bin_, bin_, 0) for bin_ in bins]
        return []

    def _open(self, unit: int) -> list[int]:
        first = unit * self._width
        return list(filter(self._incomplete, range(first, first + self._width)))
