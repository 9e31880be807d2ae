from __future__ import annotations

from pathlib import Path

import pytest

from statemgr.store import RocksBackend, RocksSettings, StoreMeta
from statemgr.types import TaskId
from tests.unit.towpath.stage.plans import APP, count_stage
from towpath.stage.assignment import STATIC_EPOCH
from towpath.stage.dump import latest_stores, newest

TASK = TaskId("count", 0)


def meta(topic_id: str, offset: int, committed_at_ms: int) -> StoreMeta:
    return StoreMeta(topic_id, offset, committed_at_ms, STATIC_EPOCH, None)


def write_store(root: Path, stored: StoreMeta) -> None:
    backend = RocksBackend(root, RocksSettings())
    backend.open(TASK, STATIC_EPOCH).write([(b"k", b"1")], stored)
    backend.close()


@pytest.mark.parametrize(
    ("stores", "wanted"),
    [
        ({"a": meta("T", 5, 100), "b": meta("T", 9, 50)}, "b"),
        ({"a": meta("former", 900, 100), "b": meta("T", 9, 200)}, "b"),
        ({"a": meta("former", 900, 100), "b": meta("T", 9, 200), "c": meta("T", 12, 150)}, "c"),
        ({"a": meta("former", 900, 100), "b": meta("T", -1, 200)}, "b"),
    ],
    ids=["by offset", "changelog made anew", "made anew, then by offset", "made anew, still empty"],
)
def test_the_newest_store_is_of_the_changelog_that_was_written_last(stores: dict[str, StoreMeta], wanted: str) -> None:
    assert newest(stores) == wanted
    assert newest(dict(reversed(stores.items()))) == wanted


def test_the_stores_of_a_task_are_compared_across_replicas(tmp_path: Path) -> None:
    write_store(tmp_path / APP / "count-0", meta("former", 900, 100))
    write_store(tmp_path / APP / "count-1", meta("T", 9, 200))
    assert latest_stores(count_stage(), tmp_path) == {TASK: tmp_path / APP / "count-1"}


def test_without_stores_there_is_none(tmp_path: Path) -> None:
    assert latest_stores(count_stage(), tmp_path) == {}


def test_stores_of_another_application_with_a_stage_of_that_name_are_not_taken(tmp_path: Path) -> None:
    write_store(tmp_path / "another" / "count-0", meta("T", 9, 200))
    assert latest_stores(count_stage(), tmp_path) == {}
