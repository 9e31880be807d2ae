"""Figures of the hand-over benchmark, from a history of which they are known."""

from __future__ import annotations

import numpy as np
import pytest

from bench.handover_figures import (
    first_outputs_ms,
    late,
    latency_curve,
    longest_gaps_ms,
    moves_of,
    progress_totals,
    spread,
    worst_latencies_ms,
)
from bench.tails import Outputs, Seen
from statemgr.control.records import Assigned, Done, Manner, Released


def assigned(partition: int, epoch: int, owner: str, at_s: float) -> Seen:
    return Seen(Assigned("count", partition, epoch, owner, (), (), Manner(), 1), at_s, at_s)


def released(partition: int, epoch: int, at_s: float) -> Seen:
    return Seen(Released("count", partition, epoch, "a", True, 10, None), at_s - 0.01, at_s)


def outputs(*rows: tuple[float, float, int, int]) -> Outputs:
    visible_s, sched_s, partition, key = zip(*rows, strict=True)
    return Outputs(np.array(visible_s), np.array(sched_s), np.array(partition), np.array(key))


HISTORY = [assigned(0, 2, "b", 10.0), released(0, 1, 10.02), Seen(Done("count", 0, 2, "b"), 12.0, 12.0)]


def test_a_move_has_the_times_of_its_own_steps_only():
    earlier = [Seen(Done("count", 0, 1, "a"), 5.0, 5.0), Seen(Done("other", 0, 9, "a"), 11.0, 11.0)]
    move = moves_of([*earlier, *HISTORY], "count")[0]
    assert (move.owner, move.assigned_s, move.done_s) == ("b", 10.0, 12.0)
    assert move.cut_s == pytest.approx(10.01)
    assert moves_of(HISTORY[:1], "count")[0].done_s is None


def test_the_first_output_is_one_of_a_hot_key_that_the_former_owner_can_t_have_made():
    seen = outputs((10.015, 9.99, 0, 7), (10.05, 10.005, 0, 7), (10.06, 10.02, 0, 1), (10.08, 10.03, 0, 7))
    assert first_outputs_ms(seen, moves_of(HISTORY, "count"), {7}) == {0: pytest.approx(80.0)}


def test_a_gap_reaches_to_the_borders_of_the_window():
    seen = outputs((10.2, 10.1, 0, 1), (10.3, 10.2, 0, 1), (10.3, 10.2, 1, 1))
    assert longest_gaps_ms(seen, [0, 1, 2], 10.0, 10.9) == {0: 600.0, 1: 600.0, 2: None}


def test_a_pause_is_charged_to_what_was_meant_to_be_emitted_in_it():
    seen = outputs((12.0, 10.0, 0, 1), (12.0, 11.5, 0, 1), (12.1, 12.05, 0, 1))
    assert worst_latencies_ms(seen, [0, 3], 10.0, 12.0) == {0: 2000.0, 3: None}
    curve = latency_curve(seen, 10.0, 13.0, 1.0)
    assert curve["at_s"] == [0.0, 1.0, 2.0]
    assert curve["max"] == pytest.approx([2000.0, 500.0, 50.0])


def test_late_outputs_are_counted_by_when_they_were_meant_to_be_emitted():
    seen = outputs((12.0, 10.0, 0, 1), (12.0, 11.7, 0, 1), (12.1, 12.05, 0, 1), (12.0, 10.0, 1, 1))
    expected = {"outputs": 2, "over_100_ms": 2, "over_250_ms": 2, "over_500_ms": 1, "over_1000_ms": 1}
    assert late(seen, [0], 10.0, 12.0) == expected


def test_what_was_said_last_of_a_move_counts():
    said = [
        {"task": "count/0", "epoch": 2, "progress": {"bytes": 5}},
        {"task": "count/0", "epoch": 2, "progress": {"bytes": 9}},
        {"task": "count/0", "epoch": 2, "progress": None},
        {"task": "count/1", "epoch": 2, "progress": {"bytes": 1}},
    ]
    assert progress_totals(said) == {"count/0@2": {"bytes": 9}, "count/1@2": {"bytes": 1}}


def test_a_spread_leaves_out_what_is_not_known():
    assert spread([1.0, None, 3.0]) == {"median": 2.0, "max": 3.0}
    assert spread([None]) == {"median": None, "max": None}
