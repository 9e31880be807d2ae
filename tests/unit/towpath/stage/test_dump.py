from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from statemgr.control.records import Layer
from statemgr.errors import StoreLockedError
from statemgr.migration.layered import begin
from statemgr.store import RocksBackend, RocksSettings, StoreMeta
from statemgr.types import TaskId
from tests.unit.towpath.stage.plans import APP, count_stage
from towpath.errors import SettingsError
from towpath.stage.assignment import STATIC_EPOCH
from towpath.stage.dump import Found, dump_state, latest_stores, newest

TASK = TaskId("count", 0)


def meta(topic_id: str, offset: int, committed_at_ms: int, epoch: int = STATIC_EPOCH) -> StoreMeta:
    return StoreMeta(topic_id, offset, committed_at_ms, epoch, None)


def write_store(root: Path, stored: StoreMeta, *, complete: bool = True) -> None:
    backend = RocksBackend(root, RocksSettings())
    store = backend.open(TASK, stored.epoch)
    if not complete:
        begin(store, [Layer("count-0", stored.epoch - 1)], stored)
    store.write([(b"k", b"1")], stored)
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
    found = {Found(Path(name), STATIC_EPOCH): stored for name, stored in stores.items()}
    assert newest(found).root == Path(wanted)
    assert newest(dict(reversed(found.items()))).root == Path(wanted)


def test_of_equal_stores_the_complete_one_of_the_highest_epoch_is_taken() -> None:
    stored = meta("T", 9, 100)
    former, copy, part = Found(Path("a"), 1), Found(Path("b"), 2), Found(Path("c"), 3, complete=False)
    assert newest({former: stored, copy: stored, part: stored}) == copy
    assert newest({former: stored, part: meta("T", 10, 100)}) == part


def test_the_stores_of_a_task_are_compared_across_replicas_and_epochs(tmp_path: Path) -> None:
    write_store(tmp_path / APP / "count-0", meta("former", 900, 100))
    write_store(tmp_path / APP / "some-host", meta("T", 9, 200))
    write_store(tmp_path / APP / "count-0", meta("T", 12, 300, epoch=4))
    assert latest_stores(count_stage(), tmp_path) == {TASK: Found(tmp_path / APP / "count-0", 4)}


def test_a_part_of_a_task_is_no_dump(tmp_path: Path) -> None:
    write_store(tmp_path / APP / "count-0", meta("T", 9, 200))
    write_store(tmp_path / APP / "count-1", meta("T", 12, 300, epoch=2), complete=False)
    with pytest.raises(SettingsError, match=r"count/0 had only a part of its state .* start the stage again"):
        dump_state(count_stage(), tmp_path, tmp_path / "dump.parquet")


def test_a_stage_that_runs_is_to_be_stopped_first(tmp_path: Path) -> None:
    write_store(tmp_path / APP / "count-0", meta("T", 9, 200))
    backend = RocksBackend(tmp_path / APP / "count-0", RocksSettings())
    backend.open(TASK, STATIC_EPOCH)
    with closing(backend), pytest.raises(StoreLockedError, match=r"count still runs, .* count/0 locked: stop it first"):
        dump_state(count_stage(), tmp_path, tmp_path / "dump.parquet")


def test_without_stores_there_is_none(tmp_path: Path) -> None:
    assert latest_stores(count_stage(), tmp_path) == {}


def test_stores_of_another_application_with_a_stage_of_that_name_are_not_taken(tmp_path: Path) -> None:
    write_store(tmp_path / "another" / "count-0", meta("T", 9, 200))
    assert latest_stores(count_stage(), tmp_path) == {}
