"""The sources of a migration from the newest layer down to the scratch base, and what is known of each.

::

    layer 0 ──unknown here──▶ layer 1 ──unknown here──▶ layer 2 ──unknown here──▶ scratch base
       │                        │
       │ no such copy: lost     │ lost                       A layer that is lost or silent is never skipped for
       └────────────────────────┴──────────────────────────▶ a deeper one, which has older values (I4).

    no answer in time   asked again; after some seconds without any a scratch base is made meanwhile (R21)
    refused, ask later  asked again after 50 ms; after a second of it like no answer
    refused             the task belongs to another: the migration ends
    not what was asked  dropped like no answer (R8)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from statemgr.errors import HolderUnavailableError, NoSuchCopyError, StaleRequestError
from statemgr.migration.limits import MigrationLimits
from statemgr.migration.ports import Chunk, Description, LookedUp, Pending
from statemgr.migration.sources import CHUNK_TIMEOUT_S, HolderSource, ScratchSource, Source

A = TypeVar("A", LookedUp, Chunk, Description)


@dataclass(frozen=True)
class Asked(Generic[A]):
    """A request on its way.

    Attributes:
        index: place of the source that was asked.
        pending: its answer to come.
        deadline_s: when it counts as lost even if the carrier has not said so.
    """

    index: int
    pending: Pending[A]
    deadline_s: float

    def over(self, now_s: float) -> bool:
        """Whether it is to be looked at."""
        return self.pending.done() or now_s >= self.deadline_s


@dataclass
class _Standing:
    failures: int = 0
    failing_since_s: float = 0.0
    unreliable: bool = False
    not_before_s: float = float("-inf")
    refused_since_s: float | None = None
    lost: bool = False
    error: str = ""
    describing: Asked[Description] | None = None


class Ladder:
    """What can be asked, and when.

    Args:
        holders: newest layer first.
        limits: deadlines.

    Attributes:
        scratch: the scratch base, once there is one; it then answers everything.
        superseded: a state manager has said that the task belongs to another owner.
        answers: answers that counted, over all sources.
        bytes: keys and values of all chunks, and values of all look-ups, that have come; also of those that were
            dropped, or are asked for again.
    """

    def __init__(self, holders: Sequence[HolderSource], limits: MigrationLimits) -> None:
        self.holders = holders
        self.scratch: ScratchSource | None = None
        self.superseded = False
        self.answers = 0
        self.bytes = 0
        self._limits = limits
        self._standings = [_Standing() for _ in holders]

    @property
    def bottom(self) -> int:
        """Place of the scratch base."""
        return len(self.holders)

    @property
    def unreliable(self) -> bool:
        """Whether a layer is lost, or has failed so long that a scratch base should be made."""
        return any(each.lost or each.unreliable for each in self._standings)

    def place(self, index: int) -> int:
        """Where to go instead of a place that can't be asked any more."""
        if self.scratch is not None or index >= self.bottom or self._standings[index].lost:
            return self.bottom
        return index

    def below(self, index: int) -> int:
        """Where to go with what a source does not know."""
        return self.place(index + 1)

    def source(self, index: int, now_s: float) -> Source | None:
        """The source at a place, if it may be asked now; one whose X is not known is asked for that first."""
        if self.superseded:
            return None
        if index >= self.bottom:
            return self.scratch
        if now_s < self._standings[index].not_before_s:
            return None
        return self.holders[index] if self._described(index, now_s) else None

    def take(self, asked: Asked[A], now_s: float) -> A | None:
        """The answer, if one has come that counts; what else has come is noted here."""
        try:
            answer = self._result(asked)
        except HolderUnavailableError as error:
            self._failed(asked.index, now_s, str(error))
        except NoSuchCopyError as error:
            self._lost(asked.index, str(error))
        except StaleRequestError as error:
            self._refused(asked.index, now_s, error)
        else:
            self.answers += 1
            if asked.index < self.bottom:
                self._standings[asked.index].failures = 0
                self._standings[asked.index].unreliable = False
                self._standings[asked.index].refused_since_s = None
            return answer
        return None

    def describe(self) -> str:
        """Every source with what is wrong with it, for messages."""
        return ", ".join(
            f"{source.name} ({standing.error or 'no complaint'})"
            for source, standing in zip(self.holders, self._standings, strict=True)
        )

    def _described(self, index: int, now_s: float) -> bool:
        holder, standing = self.holders[index], self._standings[index]
        if holder.known:
            return True
        if standing.describing is None:
            standing.describing = Asked(index, holder.describe(), now_s + CHUNK_TIMEOUT_S + self._limits.grace_s)
        if standing.describing.over(now_s):
            asked, standing.describing = standing.describing, None
            self.take(asked, now_s)
        return holder.known

    def _result(self, asked: Asked[A]) -> A:
        if not asked.pending.done():
            raise HolderUnavailableError("no answer before the deadline")
        answer = asked.pending.result()
        if isinstance(answer, Description):
            self.holders[asked.index].learn(answer)
            if asked.index + 1 < self.bottom:
                self.holders[asked.index + 1].require(answer.beneath)
            return answer
        self.bytes += _size_of(answer)
        source = self.scratch if asked.index >= self.bottom else self.holders[asked.index]
        if source is None or not source.answers(answer):
            raise HolderUnavailableError(
                f"answered for epoch {answer.epoch}, offset {answer.offset}: not what was asked"
            )
        if isinstance(answer, LookedUp) and not answer.found:
            raise HolderUnavailableError("answered for none of the keys")
        return answer

    def _failed(self, index: int, now_s: float, error: str) -> None:
        if index < self.bottom:
            standing = self._standings[index]
            if not standing.failures:
                standing.failing_since_s = now_s
            standing.failures += 1
            standing.error = error
            failing_s = now_s - standing.failing_since_s
            standing.unreliable = standing.failures >= self._limits.attempts and failing_s >= self._limits.patience_s
            if standing.failures >= self._limits.attempts:
                standing.not_before_s = now_s + self._limits.retry_s

    def _lost(self, index: int, error: str) -> None:
        if index < self.bottom:
            self._standings[index].lost = True
            self._standings[index].error = error

    def _refused(self, index: int, now_s: float, error: StaleRequestError) -> None:
        if not error.later:
            self.superseded = True
        elif index < self.bottom:
            standing = self._standings[index]
            standing.error = str(error)
            standing.not_before_s = now_s + self._limits.refused_retry_s
            if standing.refused_since_s is None:
                standing.refused_since_s = now_s
            if now_s - standing.refused_since_s >= self._limits.refused_s:
                self._failed(index, now_s, str(error))


def _size_of(answer: LookedUp | Chunk) -> int:
    if isinstance(answer, LookedUp):
        return sum(len(value) for value in answer.found if isinstance(value, bytes))
    return sum(len(key) + len(value or b"") for key, value in answer.entries)
