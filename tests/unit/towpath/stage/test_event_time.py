"""From rows and marks to watermarks and to the marks that go on, for the tasks of one replica."""

from __future__ import annotations

import polars as pl

from statemgr.types import TaskId, TopicPartition
from statemgr.watermarks import IDLE, NEVER
from towpath.operators.marks import Marks
from towpath.query import Query, tumbling
from towpath.stage.event_time import LOOK_AGAIN_S, MARK_INTERVAL_S, StageTime
from towpath.stage.tasks import OwnedTask

IDLE_S = 5.0


def stages():
    query = Query("app", partitions=2)
    schema = {"k": pl.Int64, "t": pl.Int64}
    rows = query.source("in", schema=schema, event_time="t", lag_ms=10, idle_s=IDLE_S)
    rows.key_by("k").stage("count").window(tumbling(100), on="t").count().sink("out")
    return query.plan().stages


def source_time(*partitions):
    time = StageTime(stages()[0], 4)
    tasks = {number: OwnedTask(TaskId("source", number), 1, {"in": 0}) for number in partitions}
    time.own(tasks, 0.0)
    return time


def nothing_holds(partition):
    return None


def says(time, now_s):
    return time.say(nothing_holds, now_s)


def test_what_nobody_knows_is_not_said():
    assert says(source_time(0, 1), 1.0) is None


def test_an_input_that_was_silent_and_is_at_its_end_is_idle():
    time, asked = source_time(0, 1), []

    def at_end(source):
        asked.append(source)
        return source.partition == 1

    time.rest(IDLE_S - 0.1, at_end)
    assert asked == []
    time.rest(IDLE_S, at_end)
    assert asked == [TopicPartition("in", 0), TopicPartition("in", 1)]
    assert says(time, IDLE_S) == Marks(4, {1: IDLE})
    assert says(time, IDLE_S + 1) is None
    time.rest(IDLE_S + LOOK_AGAIN_S / 2, at_end)
    assert len(asked) == 2
    time.rest(IDLE_S + LOOK_AGAIN_S, at_end)
    assert asked[2:] == [TopicPartition("in", 0)]  # the other one has said so


def test_who_owns_a_task_anew_says_again_what_was_said_of_it():
    time = StageTime(stages()[0], 4)
    task = OwnedTask(TaskId("source", 0), 1, {"in": 0}, recorded_watermarks={"in": 70, "reached": 70, "out": 70})
    time.own({0: task}, 0.0)
    assert says(time, 1.0) == Marks(4, {0: 70})
    assert says(time, 2.0) is None
    time.own({}, 2.0)
    time.own({0: task}, 2.0)
    assert says(time, 3.0) == Marks(4, {0: 70})


def test_marks_are_not_said_more_often_than_need_be():
    time = StageTime(stages()[0], 4)
    tasks = {
        n: OwnedTask(TaskId("source", n), 1, {"in": 0}, recorded_watermarks={"in": n, "reached": n, "out": n})
        for n in range(2)
    }
    time.own({0: tasks[0]}, 0.0)
    assert says(time, 1.0) == Marks(4, {0: 0})
    time.own(tasks, 1.0)
    assert says(time, 1.0 + MARK_INTERVAL_S / 2) is None
    assert says(time, 1.0 + MARK_INTERVAL_S) == Marks(4, {1: 1})


def test_what_is_held_is_not_passed_and_idleness_is_not_said_over_it():
    time = StageTime(stages()[0], 4)
    task = OwnedTask(TaskId("source", 0), 1, {"in": 0}, recorded_watermarks={"in": 70, "reached": 70, "out": 5})
    time.own({0: task}, 0.0)
    assert time.say(lambda _: NEVER, 1.0) == Marks(4, {0: 5})
    time.rest(IDLE_S, lambda _: True)
    assert time.say(lambda _: 50, 9.0) == Marks(4, {0: 49})
    assert says(time, 10.0) == Marks(4, {0: IDLE})
