"""How often something may be asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.coordinator import write_limit
from towpath.coordinator.write_limit import Rates


def test_so_many_at_once_and_then_one_whenever_there_is_room() -> None:
    rates = Rates(per_s=10.0, at_once=3)
    assert [rates.wait_s("a", 5.0) for _ in range(3)] == [0.0, 0.0, 0.0]
    assert rates.wait_s("a", 5.0) == pytest.approx(0.1)
    assert rates.wait_s("a", 5.05) == pytest.approx(0.05)
    assert rates.wait_s("a", 5.11) == 0.0
    assert rates.wait_s("a", 5.11) > 0.0


def test_after_a_rest_there_is_no_more_than_at_first() -> None:
    rates = Rates(per_s=10.0, at_once=3)
    assert [rates.wait_s("a", 0.0) for _ in range(3)] == [0.0] * 3
    assert [rates.wait_s("a", 100.0) == 0.0 for _ in range(4)] == [True, True, True, False]


def test_buckets_are_apart() -> None:
    rates = Rates(per_s=1.0, at_once=1)
    assert (rates.wait_s("a", 0.0), rates.wait_s("b", 0.0)) == (0.0, 0.0)


def test_full_buckets_make_room_for_others_and_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_limit, "MOST_BUCKETS", 2)
    rates = Rates(per_s=1.0, at_once=1)
    assert [rates.wait_s(name, 0.0) for name in "ab"] == [0.0, 0.0]
    assert rates.wait_s("c", 0.5) > 0.0
    assert rates.wait_s("c", 1.5) == 0.0
    assert len(rates._full_s) == 1


@given(st.lists(st.floats(min_value=0.0, max_value=1.0), max_size=200), st.integers(1, 20))
def test_in_no_span_of_time_are_more_taken_than_the_rate_allows(gaps_s: list[float], at_once: int) -> None:
    per_s = 7.0
    rates, now_s, taken = Rates(per_s, at_once), 0.0, []
    for gap_s in gaps_s:
        now_s += gap_s
        wait_s = rates.wait_s("a", now_s)
        if wait_s == 0.0:
            taken.append(now_s)
        else:
            assert 0.0 < wait_s <= 1.0 / per_s + 1e-9
    for first, begin_s in enumerate(taken):
        for last, end_s in enumerate(taken[first:], start=first):
            assert last - first + 1 <= at_once + (end_s - begin_s) * per_s + 1e-6
