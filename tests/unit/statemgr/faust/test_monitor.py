"""What is told of a worker."""

from __future__ import annotations

from statemgr.faust.monitor import BEATS, LoopDelay, rss_bytes


def test_the_99th_percentile_is_of_the_last_minutes_and_the_worst_of_all_time():
    delay = LoopDelay()
    assert (delay.p99_ms, delay.max_ms) == (0.0, 0.0)
    delay.note(2.0)
    for _ in range(BEATS):
        delay.note(0.001)
    assert delay.p99_ms == 1.0
    assert delay.max_ms == 2000.0


def test_one_late_beat_of_many_is_not_the_percentile_and_two_of_a_hundred_are():
    delay = LoopDelay()
    for number in range(100):
        delay.note(0.5 if number in {7, 70} else 0.0)
    assert delay.p99_ms == 500.0


def test_a_beat_that_is_early_is_not_late():
    delay = LoopDelay()
    delay.note(-0.1)
    assert (delay.p99_ms, delay.max_ms) == (0.0, 0.0)


def test_memory_is_that_of_this_process():
    assert 5 << 20 < rss_bytes() < 64 << 30
