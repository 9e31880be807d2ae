from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.errors import SettingsError
from towpath.stage.assignment import StaticAssignment


@given(total=st.integers(0, 100), count=st.integers(1, 40))
def test_every_partition_is_owned_exactly_once_and_evenly(total: int, count: int) -> None:
    owned = [StaticAssignment(index, count).partitions(total) for index in range(count)]
    assert sorted(partition for partitions in owned for partition in partitions) == list(range(total))
    sizes = [len(partitions) for partitions in owned]
    assert max(sizes) - min(sizes) <= 1


def test_replicas_beyond_the_number_of_tasks_own_nothing() -> None:
    assert [StaticAssignment(index, 3).partitions(1) for index in range(3)] == [[0], [], []]


@pytest.mark.parametrize(
    ("index", "count", "text"),
    [(0, 0, "at least 1, not 0"), (3, 3, r"index 3 is not within 0 … 2"), (-1, 2, r"index -1 is not within")],
)
def test_a_plan_that_can_not_be_is_refused(index: int, count: int, text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        StaticAssignment(index, count)
