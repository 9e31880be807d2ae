"""What workers' journals say of a rebalance."""

from __future__ import annotations

import numpy as np
import pytest

from bench.faust_tables.figures import move, rate, summary
from bench.faust_tables.page import markdown, table
from tests.harness.faust_tables.journal import EVENT, RECORD, REVOKED, judge


def journal(*lines: tuple[int, int, float]) -> np.ndarray:
    """Lines of (what, partition, time)."""
    return np.array([(what, partition, 0, 0, 1, 0, time) for what, partition, time in lines], RECORD)


def events(*lines: tuple[int, int, int, int]) -> np.ndarray:
    """Events of (partition, offset, number, found)."""
    return np.array([(EVENT, partition, offset, 0, n, found, 0.0) for partition, offset, n, found in lines], RECORD)


def test_a_rebalance_begins_when_partitions_are_revoked():
    a = journal((EVENT, 0, 1.0), (EVENT, 1, 1.1), (REVOKED, -1, 2.0), (EVENT, 0, 2.6))
    b = journal((REVOKED, -1, 2.1), (EVENT, 1, 2.5))
    found = move({"a": a, "b": b}, 0.0, 10.0)
    assert (found.moved, found.first_ms, found.all_ms) == (1, 500.0, 500.0)
    assert found.gap_ms == pytest.approx(1600.0)
    assert found.missed_ms == pytest.approx(900.0)


def test_the_last_of_several_moved_partitions_counts_too():
    a = journal((EVENT, 0, 1.0), (EVENT, 1, 1.1), (REVOKED, -1, 2.0))
    b = journal((EVENT, 1, 2.5), (EVENT, 0, 3.0))
    found = move({"a": a, "b": b}, 0.0, 10.0)
    assert (found.moved, found.first_ms, found.all_ms) == (2, 500.0, 1000.0)


def test_without_a_move_there_is_no_first_event():
    found = move({"a": journal((EVENT, 0, 1.0), (EVENT, 0, 2.0)), "b": journal()}, 0.0, 10.0)
    assert (found.moved, found.first_ms, found.gap_ms) == (0, None, 1000.0)


def test_the_rate_is_that_between_first_and_last_event():
    assert rate(journal(*((EVENT, 0, second / 10) for second in range(11)))) == 10.0
    assert rate(journal((EVENT, 0, 1.0))) == 0.0


def test_lost_doubled_and_premature_events_are_told_apart():
    one = events((0, 0, 1, 0), (0, 1, 2, 1))
    two = events((0, 1, 2, 2), (1, 0, 5, 2))
    verdict = judge([one, two], {0: 3, 1: 1})
    assert (verdict.processed, verdict.lost, verdict.again, verdict.lacking) == (4, 1, 1, 1)


def test_rounds_are_summed_up_by_their_medians():
    rounds = [{"a": {"ms": each, "ok": True}, "none": None} for each in (1.0, 9.0, 2.0)]
    assert summary(rounds) == {"a": {"ms": 2.0, "ok": True}, "none": None}


def test_the_table_shows_what_was_measured():
    shown = table([{"keys": 1000, "rocksdb": {"one_to_two": {"first_ms": 1234.5}}, "statemgr": {"all_state_s": 2.25}}])
    assert shown[0] == ["", "rocksdb, 1,000 keys", "statemgr, 1,000 keys"]
    assert shown[1] == ["1 → 2: first event of a moved partition, ms", "1,234", "–"]
    assert "| 1 → 2: all state is there, s | – | 2.2 |" in markdown(shown)
