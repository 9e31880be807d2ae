"""The measured window, from samples of which it is known."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from bench.peers.drain import is_flat
from bench.peers.progress import newly_covered, share_at, window
from bench.peers.sampling import Memory, Sample


def outputs(*rows: tuple[int, int, int, int]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["partition", "offset", "auction", "count"], orient="row")


def sample(at_s: float, *ends: int, consumed: int = 0) -> Sample:
    return Sample(at_s, 2 * at_s, at_s, ends, consumed)


def test_a_count_covers_the_events_that_no_earlier_count_of_its_key_had_told_of():
    rows = outputs((0, 0, 7, 1), (0, 1, 8, 3), (0, 2, 7, 4), (0, 3, 7, 4), (0, 4, 7, 2), (0, 5, 8, 4))
    assert newly_covered(rows, ["auction"]).to_list() == [1, 3, 3, 0, 0, 1]


def test_what_is_visible_at_a_moment_lies_below_the_end_of_its_partition():
    rows = outputs((0, 0, 1, 1), (1, 5, 2, 2), (0, 3, 1, 2), (1, 6, 2, 3))
    samples = [sample(0, 0, 0), sample(1, 1, 0), sample(2, 3, 6), sample(3, 4, 7)]
    shares = share_at(samples, rows, newly_covered(rows, ["auction"]), 5)
    assert shares.tolist() == pytest.approx([0.0, 0.2, 0.6, 1.0])


def test_the_window_goes_from_the_start_share_to_the_first_moment_with_everything():
    samples = [sample(at) for at in range(6)]
    found = window(samples, np.array([0.0, 0.2, 0.4, 0.8, 1.0, 1.0]), 1000)
    assert found is not None
    assert (found.start.at_s, found.end.at_s, found.events) == (2, 4, 600)
    assert (found.seconds, found.cpu_s, found.broker_cpu_s) == (2, 4, 2)


def test_the_clock_starts_when_a_burst_of_old_results_is_over():
    samples = [sample(at) for at in range(9)]
    shares = np.array([0.0, 0.31, 0.5, 0.6, 0.6, 0.6, 0.7, 0.9, 1.0])
    found = window(samples, shares, 1000)
    assert found is not None
    assert (found.start.at_s, found.events) == (3, pytest.approx(400))


def test_input_that_was_taken_before_and_has_no_result_counts_half():
    samples = [sample(0), sample(1, consumed=700), sample(2)]
    found = window(samples, np.array([0.0, 0.4, 1.0]), 1000)
    assert found is not None
    assert (found.ahead, found.events) == (pytest.approx(0.3), pytest.approx(450))


def test_positions_that_are_committed_late_change_nothing():
    samples = [sample(0), sample(1, consumed=100), sample(2)]
    found = window(samples, np.array([0.0, 0.4, 1.0]), 1000)
    assert found is not None
    assert (found.ahead, found.events) == (0.0, 600)


@pytest.mark.parametrize("shares", [[0.0, 1.0, 1.0], [0.0, 0.9, 1.0], [0.0, 0.4, 0.9]])
def test_there_is_no_window_when_too_little_is_in_it_or_something_is_missing(shares: list[float]):
    assert window([sample(at) for at in range(3)], np.array(shares), 1000) is None


def test_memory_is_flat_when_the_last_third_is_no_higher_than_the_second():
    def memory(*sizes: int) -> list[Memory]:
        return [Memory(at, size, size) for at, size in enumerate(sizes)]

    assert is_flat(memory(1, 5, 100, 100, 101, 102))
    assert not is_flat(memory(1, 5, 100, 100, 101, 110))
    assert not is_flat(memory(1, 1))
