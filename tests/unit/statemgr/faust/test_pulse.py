"""A process that has stood still knows it, whoever looks first."""

from __future__ import annotations

from statemgr.faust.pulse import Pulse
from statemgr.testing.clock import ManualClock


def pulse(clock: ManualClock) -> Pulse:
    return Pulse(5.0, clock.monotonic_s)


def test_a_beating_process_has_not_stood_still():
    clock = ManualClock()
    beats = pulse(clock)
    for _ in range(10):
        clock.advance(4.9)
        beats.beat()
    assert beats.stood_still_s() == 0.0


def test_it_is_known_before_the_thread_beats_again():
    clock = ManualClock()
    beats = pulse(clock)
    clock.advance(6.0)
    assert beats.stood_still_s() == 6.0


def test_and_not_forgotten_after():
    clock = ManualClock()
    beats = pulse(clock)
    clock.advance(6.0)
    for _ in range(3):
        beats.beat()
        clock.advance(0.25)
    assert beats.stood_still_s() == 6.0
