"""A state manager deletes a store while its replica opens it: whatever the order, who has it open has its lock."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from statemgr.layout import store_directory
from statemgr.store import RocksBackend, RocksSettings, StoreMeta, directories, rocks_backend
from tests.cases.cleaner import DELETED, EPOCH, LOCKED, TASK, Cleaner, at_each_line
from tests.unit.statemgr.test_rocks import is_locked

INTERLEAVINGS = 100

FILES = {directories.__file__, rocks_backend.__file__}

KEY = b"\x00key"

SETTINGS = RocksSettings(cache_bytes=1 << 20, write_buffer_bytes=1 << 20)


@contextmanager
def interleaved(cleaner: Cleaner, dice: random.Random) -> Iterator[None]:
    """Before each line of what opens and closes stores, the other process does some of its own."""
    pace = dice.choice([0.1, 0.3, 1.0, 3.0])

    def step() -> None:
        for _ in range(int(dice.expovariate(1 / pace))):
            cleaner.step()

    before = sys.gettrace()
    sys.settrace(at_each_line(FILES, step))
    try:
        yield
    finally:
        sys.settrace(before)


def opened_beside_a_clean_up(seed: int, cleaner: Cleaner, root: Path) -> str:
    dice = random.Random(seed)
    directory = store_directory(root, TASK, EPOCH)
    backend = RocksBackend(root, SETTINGS, clock=lambda: 0.0, sleep=lambda _: cleaner.step())
    old = dice.random() < 0.5
    if old:
        backend.open(TASK, EPOCH).close()
    cleaner.begin(root)
    for _ in range(dice.randrange(12) if old else 0):
        cleaner.step()
    with interleaved(cleaner, dice):
        store = backend.open(TASK, EPOCH)
    assert is_locked(directory)
    store.write([(KEY, b"1")], StoreMeta("T", 1, 1, 1, None))
    if dice.random() < 0.5:
        cleaner.finish()
    assert directories.is_store(directory), "a store that is open was deleted"
    assert is_locked(directory)
    closing = cleaner.outcome is None
    with interleaved(cleaner, dice):
        store.close()
    outcome = cleaner.finish()
    assert not is_locked(directory)
    again = backend.open(TASK, EPOCH)
    assert again.get_many([KEY]) == [b"1"] or closing
    again.close()
    cleaner.begin(root)
    assert cleaner.finish() == DELETED
    assert backend.existing(TASK) == []
    return outcome


@pytest.mark.slow
def test_whatever_the_interleaving_an_open_store_is_locked_and_a_closed_one_is_not(tmp_path: Path) -> None:
    outcomes: Counter[str] = Counter()
    with Cleaner() as cleaner:
        for seed in range(INTERLEAVINGS):
            try:
                outcomes[opened_beside_a_clean_up(seed, cleaner, tmp_path / str(seed))] += 1
            except BaseException as error:
                error.add_note(f"seed {seed}")
                raise
    assert min(outcomes[DELETED], outcomes[LOCKED]) > INTERLEAVINGS / 20, outcomes
