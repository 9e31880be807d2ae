from __future__ import annotations

import json

import pytest

from statemgr.progress import InputProgress, Progress
from statemgr.types import Position, TaskId, TopicPartition
from towpath.stage.parking import Parking
from towpath.stage.tasks import OwnedTask, noted_topic_id, owner_index, shown_offsets


def task(partition: int = 2, **positions: int) -> OwnedTask:
    return OwnedTask(TaskId("count", partition), 3, positions)


def test_an_input_position_only_moves_forward() -> None:
    owned = task(bids=5)
    owned.advance("bids", 5)
    owned.advance("bids", 4)
    assert (owned.positions, owned.touched) == ({"bids": 5}, False)
    owned.advance("bids", 6)
    assert (owned.positions, owned.touched) == ({"bids": 6}, True)


def test_the_progress_record_has_the_epoch_and_every_input() -> None:
    expected = Progress(3, {"bids": InputProgress(5, 5), "people": InputProgress(9, 9)})
    assert task(bids=5, people=9).progress() == expected


def test_rows_that_wait_are_in_the_progress_record_and_hold_the_shown_offset() -> None:
    owned = task(bids=9)
    owned.parking = Parking()
    owned.parking.admit("bids", [b"k"], [Position(7, 2)], lambda keys: keys)
    assert owned.progress() == Progress(3, {"bids": InputProgress(7, 9, {"k": (7, 2)})})
    source = TopicPartition("bids", 2)
    assert (owned.offsets(), owned.reads_from()) == ({source: 7}, {source: 9})
    assert shown_offsets([owned], {source: 9}) == {source: 7}


def test_a_position_behind_what_was_read_does_not_pass_markers() -> None:
    owned = task(bids=9)
    owned.behind.add("bids")
    owned.skip("bids", 12)
    assert owned.positions == {"bids": 9}
    owned.behind.clear()
    owned.skip("bids", 12)
    assert owned.positions == {"bids": 12}


def test_a_task_without_a_migration_has_all_its_state() -> None:
    owned = task(bids=0)
    assert (owned.migrating, owned.full, owned.settle()) == (False, False, True)


def test_shown_are_the_offsets_that_differ_from_what_the_group_has() -> None:
    shown = {TopicPartition("bids", 0): 4, TopicPartition("bids", 1): 7}
    tasks = [task(0, bids=4), task(1, bids=8), task(2, bids=0)]
    assert shown_offsets(tasks, shown) == {TopicPartition("bids", 1): 8, TopicPartition("bids", 2): 0}


def test_the_metadata_of_an_offset_is_small_json_and_names_the_topic() -> None:
    owned = OwnedTask(TaskId("map", 0), 2**31, {"bids": 2**62}, {"bids": "4SjHPHAWTtGDf7Z2mm9zzg"})
    text = owned.note(TopicPartition("bids", 0))
    assert json.loads(text) == {"epoch": 2**31, "high": 2**62, "topic_id": "4SjHPHAWTtGDf7Z2mm9zzg"}
    assert noted_topic_id(text) == "4SjHPHAWTtGDf7Z2mm9zzg"
    assert len(text) < 200


@pytest.mark.parametrize("metadata", ["", "NULL", "{", '{"epoch":1}', "[]"])
def test_foreign_metadata_names_no_topic(metadata: str) -> None:
    assert noted_topic_id(metadata) == ""


def test_tasks_are_found_by_partition() -> None:
    first, second = task(0), task(4)
    assert owner_index([first, second]) == {0: first, 4: second}
