"""A task that runs while part of its state is still elsewhere: the job, as the replica's loop sees it.

::

    row needs a list ─▶ its head is fetched ─▶ which says what chunks there are ─▶ these are fetched ─▶ the list is here
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from statemgr.migration.job import MigrationJob

RestOf = Callable[[Collection[bytes]], Mapping[bytes, Sequence[bytes]]]
"""See :meth:`statemgr.state.TaskState.rest_of`."""


def no_lists(store_keys: Collection[bytes]) -> Mapping[bytes, Sequence[bytes]]:  # noqa: ARG001
    """For state without lists."""
    return {}


class Migration:
    """The way of one task's state to this replica.

    Args:
        job: asks the holders and installs what they answer.
        resolved: told the store keys whose state has arrived (or is known to be absent), lists as a whole.
        read: what is known of the changelog that is read for it.
        rest_of: which chunks of lists are not here yet.
    """

    def __init__(
        self,
        job: MigrationJob,
        resolved: Callable[[Sequence[bytes]], None],
        read: Callable[[], dict[str, Any]] = dict,
        rest_of: RestOf = no_lists,
    ) -> None:
        self.job = job
        self._resolved = resolved
        self._read = read
        self._rest_of = rest_of
        self._lists: dict[bytes, bytes] = {}  # chunk that is waited for → its list
        self._chunks: dict[bytes, set[bytes]] = {}  # list → its chunks that are waited for

    @property
    def complete(self) -> bool:
        """Whether no other's copy is needed any more."""
        return self.job.complete

    def request(self, keys: Sequence[bytes]) -> None:
        """Fetch these store keys soon: rows wait for them; their bins come next, since more such rows may follow."""
        self.job.request(self._without_rest(keys))
        self.job.hasten({key[0] for key in keys})

    def advance(self, now_s: float, budget_s: float) -> None:
        """Install what has arrived, and ask for more.

        Args:
            now_s: monotonic seconds.
            budget_s: time for what nobody waits for.
        """
        arrived = self.job.poll(now_s, budget_s)
        if arrived:
            chunks = arrived.intersection(self._lists)
            lists = list(filter(None, map(self._completed, chunks)))
            self._resolved([*self._without_rest(arrived - chunks), *lists])

    def fetch(self, bins: Collection[int]) -> None:
        """Fetch these bins at once: event time has to wait for them."""
        self.job.fetch(bins)

    def hurry(self) -> None:
        """Bring the rest without pacing: a holder wants to leave, or nothing runs before it is there."""
        self.job.hurry()

    def close(self) -> None:
        """Ask and install nothing more."""
        self.job.close()

    def _without_rest(self, keys: Collection[bytes]) -> list[bytes]:
        """These, but lists of which only chunks are still elsewhere: these chunks are asked for."""
        rest = self._rest_of(keys)
        for key, chunks in rest.items():
            self._chunks.setdefault(key, set()).update(chunks)
            self._lists.update(dict.fromkeys(chunks, key))
            self.job.request(chunks)
        return [key for key in keys if key not in rest]

    def _completed(self, chunk: bytes) -> bytes | None:
        """The list that is whole with a chunk, if one is."""
        key = self._lists.pop(chunk)
        left = self._chunks[key]
        left.discard(chunk)
        if left:
            return None
        del self._chunks[key]
        return key

    def report(self) -> dict[str, Any]:
        """How far it has come, for the coordinator and for people."""
        return {**self._read(), **msgspec.to_builtins(self.job.progress())}
