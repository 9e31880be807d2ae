"""A copy that goes on behind the changelog's end at the take-over is no source: somebody who owns nothing writes it."""

from __future__ import annotations

import pytest

from statemgr.control.records import Layer
from statemgr.errors import NoSuchCopyError
from statemgr.faust.bounded import BoundedClient
from statemgr.faust.holder import CopyService
from statemgr.faust.images import store_key
from statemgr.migration.ports import Address
from statemgr.sidecar.direct import DirectStateClient
from statemgr.sidecar.readers import MemoryReaders
from statemgr.store import MemoryBackend, StoreMeta
from statemgr.testing.clock import ManualClock
from statemgr.types import TaskId

TASK = TaskId("app-counts-changelog", 0)
ADDRESS = Address(TASK, Layer("a", 1), 2)
KEY = store_key(b"k")


def client(offset: int, last: int) -> BoundedClient:
    backend = MemoryBackend()
    backend.open(TASK, 1).write([(KEY, b"1")], StoreMeta("w", offset, 0, 1, None))
    return BoundedClient(DirectStateClient({"a": CopyService(MemoryReaders(backend), ManualClock(), "a")}), last)


ASK = [
    lambda asked: asked.describe(ADDRESS, -1, 1.0),
    lambda asked: asked.look_up(ADDRESS, -1, [KEY], 1.0),
    lambda asked: asked.hot(ADDRESS, -1, b"", 1.0),
    lambda asked: asked.bins(ADDRESS, -1, 0, 255, b"", 1.0),
    lambda asked: asked.filter(ADDRESS, -1, 1.0),
]


@pytest.mark.parametrize("ask", ASK)
def test_up_to_the_end_it_is_believed(ask):
    pending = ask(client(offset=5, last=5))
    assert pending.done()
    pending.result()


@pytest.mark.parametrize("ask", ASK)
def test_behind_it_the_copy_is_lost(ask):
    with pytest.raises(NoSuchCopyError, match="does not own the partition"):
        ask(client(offset=6, last=5)).result()
