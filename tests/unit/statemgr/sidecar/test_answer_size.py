"""A look-up keeps few values in hand beyond what its answer takes, however large they are."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from statemgr.sidecar import answers
from statemgr.store import MemoryBackend
from statemgr.store.base import Store, StoreMeta
from statemgr.types import TaskId

LIMIT = 1 << 20


class Counting:
    """A store that counts the bytes that one call reads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.most_bytes = 0
        self.calls = 0

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        values = self._store.get_many(keys)
        self.calls += 1
        self.most_bytes = max(self.most_bytes, sum(len(value or b"") for value in values))
        return values

    def meta(self) -> StoreMeta | None:
        return self._store.meta()

    def migration(self) -> bytes | None:
        return None


@pytest.mark.parametrize("value_bytes", [1, 100, 10_000, 1_000_000])
def test_a_look_up_reads_little_more_than_its_answer_takes(value_bytes: int) -> None:
    store = MemoryBackend().open(TaskId("count", 0), 1)
    keys = [b"\x01%04d" % number for number in range(2000)]
    store.write([(key, b"x" * value_bytes) for key in keys], StoreMeta("T", 1, 0, 1, None))
    counting = Counting(store)
    found: list[object] = []
    rounds = 0
    while len(found) < len(keys) and rounds < 40:
        found += answers.look_up(counting, 1, keys[len(found) :], LIMIT).found  # type: ignore[arg-type]
        rounds += 1
    assert counting.most_bytes <= max(2 * LIMIT, 8 * value_bytes)
    assert counting.calls <= len(found) / 100 + 3 * rounds
    assert found == [b"x" * value_bytes] * len(found)
