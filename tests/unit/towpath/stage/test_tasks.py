from __future__ import annotations

import json

from statemgr.progress import InputProgress, Progress
from statemgr.types import TaskId, TopicPartition
from towpath.stage.tasks import OwnedTask, offset_metadata, owner_index, shown_offsets


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


def test_shown_are_the_offsets_that_differ_from_what_the_group_has() -> None:
    shown = {TopicPartition("bids", 0): 4, TopicPartition("bids", 1): 7}
    tasks = [task(0, bids=4), task(1, bids=8), task(2, bids=0)]
    assert shown_offsets(tasks, shown) == {TopicPartition("bids", 1): 8, TopicPartition("bids", 2): 0}


def test_the_metadata_of_an_offset_is_small_json() -> None:
    text = offset_metadata(2**31, 2**63)
    assert json.loads(text) == {"epoch": 2**31, "high": 2**63}
    assert len(text) < 100


def test_tasks_are_found_by_partition() -> None:
    first, second = task(0), task(4)
    assert owner_index([first, second]) == {0: first, 4: second}
