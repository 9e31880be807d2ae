"""Restores in the same terms, from histories of which the figures are known."""

from __future__ import annotations

import msgspec
import pytest

from bench.changelog_size import Size
from bench.restore_figures import ratio, replayed, target, told_by_listener
from bench.tails import Seen
from statemgr.control.records import Assigned, Done, Manner, Released


def assigned(partition: int, at_s: float) -> Seen:
    return Seen(Assigned("count", partition, 2, "b", (), (), Manner(), 1), at_s, at_s)


def released(partition: int, offset: int, at_s: float, stage: str = "count") -> Seen:
    return Seen(Released(stage, partition, 1, "a", True, offset, None), at_s, at_s + 0.01)


def done(partition: int, at_s: float) -> Seen:
    return Seen(Done("count", partition, 2, "b"), at_s, at_s)


MOVE = [
    assigned(0, 10.0),
    assigned(3, 10.0),
    released(0, 99, 10.5),
    released(3, 49, 10.6),
    done(3, 12.0),
    done(0, 12.5),
]


def test_a_replay_lasts_from_the_first_cut_to_the_last_task_that_runs_and_reads_up_to_the_cuts():
    restore = replayed(MOVE, "count")
    assert restore is not None
    assert restore.ends == {0: 100, 3: 50}
    assert restore.seconds == pytest.approx(2.0)
    assert restore.figures(Size(150, 15_000)) == {
        "partitions": 2,
        "records": 150,
        "bytes": 15_000,
        "seconds": 2.0,
        "records_per_s": 75,
        "assigned_to_running_s": 2.5,
    }


@pytest.mark.parametrize("missing", range(2, len(MOVE)))
def test_a_move_with_a_missing_step_gives_no_figure(missing: int):
    assert replayed([each for at, each in enumerate(MOVE) if at != missing], "count") is None


def test_a_release_that_names_no_cut_gives_no_figure_and_no_move_neither():
    unnamed = [
        Seen(msgspec.structs.replace(each.record, offset=-1), each.written_s, each.seen_s)
        if isinstance(each.record, Released)
        else each
        for each in MOVE
    ]
    assert replayed(unnamed, "count") is None
    assert replayed(MOVE, "other") is None


def test_another_stage_s_releases_are_not_counted():
    restore = replayed([*MOVE, released(0, 7, 12.6, stage="other")], "count")
    assert restore is not None
    assert restore.ends[0] == 100


def test_the_listener_s_restore_lasts_from_the_first_begin_to_the_last_end():
    answer = {
        "started_s": 1.0,
        "running_s": 9.25,
        "partitions": [
            {"partition": 1, "began_s": 5.0, "ended_s": 8.0, "records": 10},
            {"partition": 0, "began_s": 4.5, "ended_s": 6.0, "records": 30},
        ],
    }
    restore = told_by_listener(answer, {0: 31, 1: 11})
    figures = restore.figures(Size(40, 4_000))
    assert (figures["seconds"], figures["records_per_s"], figures["started_to_running_s"]) == (3.5, 11, 8.25)


def test_the_ratio_is_over_their_fastest_by_the_time_that_is_asked_for():
    ours = {"records_per_s": 300}
    slow_start, quick_start = {"records": 400, "seconds": 2.0, "all": 8.0}, {"records": 400, "seconds": 4.0, "all": 5.0}
    assert ratio(ours, [slow_start, quick_start]) == 1.5
    assert ratio(ours, [slow_start, quick_start], "all") == 3.75
    assert ratio(None, [slow_start]) is None
    assert ratio(ours, []) is None


@pytest.mark.parametrize(
    ("loaded", "idle", "measured", "ok"),
    [(1.5, 1.2, 1.2, True), (1.5, 0.9, 0.9, False), (1.5, None, None, False), (1.0, 1.0, 1.0, True)],
)
def test_the_lower_ratio_decides_and_both_must_be_known(
    loaded: float, idle: float | None, measured: float | None, ok: bool
):
    row = target({"under_load": {"ratio": loaded}, "without_load": {"ratio": idle}})
    assert (row["measured"], row["ok"]) == (measured, ok)


def test_a_condition_that_was_not_reached_is_no_success():
    assert target({"under_load": {"ratio": 2.0}})["ok"] is False
