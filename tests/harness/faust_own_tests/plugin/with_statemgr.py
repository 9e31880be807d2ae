"""Plugin of pytest for Faust's own tests: their tables have ``store="statemgr://"``, as if partitions were assigned.

It is loaded in a process whose package ``tests`` is Faust's, so it imports nothing of this repository's tests. Faust's
tests need no plugin for asyncio with it: ``event_loop`` is here, and coroutines are run on it.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion import util
from faust.stores import STORES, by_url

from statemgr.clock import SystemClock
from statemgr.faust.store import Store
from statemgr.faust.tenure import Tenure, Waits
from statemgr.store.rocks_backend import RocksBackend
from statemgr.store.rocks_options import RocksSettings
from statemgr.types import TaskId

NOT_APPLICABLE = json.loads(os.environ["NOT_APPLICABLE"])
"""End of a test's name → why it says nothing of this store."""

SMALL = 8 << 20
_numbers = itertools.count(1)


class Everywhere(dict):
    """Whatever partition is asked for is this worker's, and it is one and the same."""

    def __init__(self, tenure: Tenure) -> None:
        super().__init__({0: tenure})

    def get(self, _partition: Any, _default: Any = None) -> Any:
        return self[0]

    def __contains__(self, _partition: Any) -> bool:
        return True


class Assigned(Store):
    """The store with a partition, on disk."""

    def __init__(self, url: Any, app: Any, table: Any, **kwargs: Any) -> None:
        super().__init__(url, app, table, **kwargs)
        self._directory = tempfile.TemporaryDirectory(prefix="faust-own-", ignore_cleanup_errors=True)
        task = TaskId("changelog", 0)
        store = RocksBackend(Path(self._directory.name), RocksSettings(SMALL, SMALL // 2)).open(task, 1)
        self.tenure = Tenure(task, 1, 1, store, None, self.held.image, SystemClock(), Waits())
        self.held.tenures = Everywhere(self.tenure)
        _opened.append(self)


_opened: list[Assigned] = []

for _name in ("_compare_eq_dict", "_compare_eq_set"):
    if not hasattr(util, _name):  # Faust's tests compare by these, which newer versions of pytest do not have
        setattr(util, _name, lambda found, wanted, **_: [f"{found!r} != {wanted!r}"])


class ForStoreTests(Assigned):
    """In the place of the store that Faust's tests of stores define for themselves; a mock is its table.

    Attributes:
        keep: what it holds, as those tests look at it.
    """

    def __init__(self, url: Any, app: Any, table: Any, **kwargs: Any) -> None:
        table.changelog_topic.get_topic_name.return_value = "changelog"
        table.is_global = table.use_partitioner = False
        super().__init__("statemgr://", app, table, **kwargs)
        self.keep = Kept(self)

    def apply_changelog_batch(self, batch: Any, to_key: Any, to_value: Any) -> None:
        events = list(batch)
        for event in events:  # a mock's message says nothing of these
            event.message.partition, event.message.offset, event.message.timestamp = 0, next(_numbers), 0.0
        super().apply_changelog_batch(events, to_key, to_value)

    def _clear(self) -> None:
        for key in list(self._iterkeys()):
            self._del(key)


class Kept:
    """What a store holds, by raw keys."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getitem__(self, key: bytes) -> bytes:
        value = self._store._get(key)
        if value is None:
            raise KeyError(key)
        return value


@pytest.fixture()
def event_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop of each test."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    for store in _opened:
        store.tenure.flush()
        store.tenure.close()
    _opened.clear()
    loop.close()
    asyncio.set_event_loop(None)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    given = {name: value for name, value in pyfuncitem.funcargs.items() if name in wanted}
    pyfuncitem.funcargs["event_loop"].run_until_complete(pyfuncitem.obj(**given))
    return True


def pytest_configure(config: pytest.Config) -> None:
    """Have tables take the store with a partition."""
    config.addinivalue_line("markers", "asyncio: a coroutine")
    assert by_url("statemgr://") is Store, "Faust does not find the store by its entry point"
    STORES.aliases["statemgr"] = "with_statemgr:Assigned"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the store into the tests of stores, and leave out what says nothing of it."""
    unknown = set(NOT_APPLICABLE)
    for item in items:
        if hasattr(item.module, "MySerializedStore"):
            item.module.MyStore = item.module.MySerializedStore = ForStoreTests
        for name in [each for each in NOT_APPLICABLE if item.nodeid.endswith(each)]:
            item.add_marker(pytest.mark.skip(reason=NOT_APPLICABLE[name]))
            unknown.discard(name)
    if unknown:
        raise pytest.UsageError(f"Faust has no such tests any more: {', '.join(sorted(unknown))}")
