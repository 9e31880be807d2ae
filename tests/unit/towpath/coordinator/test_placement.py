"""Placement is balanced, leaves nobody out, and moves no more than that takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from towpath.coordinator.placement import natural, place, stand_ins

NAMES = [f"count-{index}" for index in range(40)]

memberships = st.lists(st.sets(st.sampled_from(NAMES), min_size=1), min_size=1, max_size=8)


def spread(placed: Mapping[int, str], members: Sequence[str]) -> int:
    counts = Counter(placed.values())
    return max(counts[name] for name in members) - min(counts[name] for name in members)


def most_that_can_stay(partitions: int, members: Sequence[str], current: Mapping[int, str]) -> int:
    """Everybody keeps the smaller share; the larger shares that there are go to those that can use them."""
    share, larger = divmod(partitions, len(members))
    held = Counter(owner for owner in current.values() if owner in members)
    return sum(min(count, share) for count in held.values()) + min(
        larger, sum(count > share for count in held.values())
    )


@given(partitions=st.integers(1, 100), joins_and_leaves=memberships)
def test_after_any_joins_and_leaves_tasks_are_balanced_with_the_fewest_moves(
    partitions: int, joins_and_leaves: list[set[str]]
) -> None:
    current: dict[int, str] = {}
    for members in joins_and_leaves:
        names = sorted(members)
        placed = place(range(partitions), names, current)
        note(f"{names}: {placed}")
        assert sorted(placed) == list(range(partitions))
        assert set(placed.values()) <= members
        assert spread(placed, names) <= 1
        stayed = sum(current.get(partition) == owner for partition, owner in placed.items())
        assert stayed == most_that_can_stay(partitions, names, current)
        current = placed


@given(partitions=st.integers(1, 100), members=st.sets(st.sampled_from(NAMES), min_size=1), data=st.data())
def test_the_fewest_moves_hold_from_any_owners_however_uneven(
    partitions: int, members: set[str], data: st.DataObject
) -> None:
    owners = st.sampled_from([*NAMES, "gone"])
    current = data.draw(st.dictionaries(st.integers(0, partitions - 1), owners))
    names = sorted(members)
    placed = place(range(partitions), names, current)
    assert spread(placed, names) <= 1
    stayed = sum(current.get(partition) == owner for partition, owner in placed.items())
    assert stayed == most_that_can_stay(partitions, names, current)
    assert place(range(partitions), names, placed) == placed, "what is balanced stays as it is"


def test_a_member_that_comes_back_gets_its_share_again() -> None:
    """Capacity ceil(5/4) = 2 would leave the fourth of four members empty for ever."""
    without = place(range(5), ["a", "b", "c"], {})
    again = place(range(5), ["a", "b", "c", "d"], without)
    assert Counter(again.values()).keys() == {"a", "b", "c", "d"}
    assert sum(without[partition] != owner for partition, owner in again.items()) == 1


def test_more_members_than_tasks_leave_some_idle_and_move_nothing() -> None:
    placed = place(range(2), ["a", "b"], {})
    assert place(range(2), ["a", "b", "c", "d"], placed) == placed


def test_without_members_nothing_is_placed() -> None:
    assert place(range(4), [], {0: "a"}) == {}


def test_what_was_asked_for_is_kept_and_the_rest_balanced_around_it() -> None:
    placed = place(range(4), ["a", "b"], {0: "a", 1: "a", 2: "b", 3: "b"}, pinned={0: "b"})
    assert placed == {0: "b", 1: "a", 2: "a", 3: "b"} or placed == {0: "b", 1: "a", 2: "b", 3: "a"}
    assert Counter(place(range(4), ["a", "b"], {}, pinned=dict.fromkeys(range(4), "b")).values()) == {"b": 4}


def test_a_pin_to_somebody_who_is_gone_says_nothing() -> None:
    assert place(range(2), ["a"], {}, pinned={0: "gone"}) == {0: "a", 1: "a"}


def test_a_task_that_must_move_goes_where_a_copy_of_its_state_is() -> None:
    current = {0: "a", 1: "a", 2: "b", 3: "b", 4: "gone", 5: "gone"}
    placed = place(range(6), ["a", "b"], current, preferred={4: "b", 5: "a"})
    assert (placed[4], placed[5]) == ("b", "a")
    given_up = place(range(4), ["a", "b"], dict.fromkeys(range(4), "a"), preferred={0: "b", 1: "b"})
    assert given_up == {0: "b", 1: "b", 2: "a", 3: "a"}


@pytest.mark.parametrize(("members", "expected"), [(["a"], {}), (["a", "b"], {0: "b", 1: "b", 2: "a", 3: "a"})])
def test_a_stand_in_is_never_the_owner(members: list[str], expected: dict[int, str]) -> None:
    owners = {0: "a", 1: "a", 2: "b", 3: "b"}
    assert {p: n for p, n in stand_ins(range(4), members, owners, {}).items() if owners[p] in members} == expected


def test_stand_ins_are_spread_evenly_and_stay_where_they_are() -> None:
    members = ["a", "b", "c"]
    owners = place(range(12), members, {})
    chosen = stand_ins(range(12), members, owners, {})
    assert max(Counter(chosen.values()).values()) - min(Counter(chosen.values()).values()) <= 1
    assert stand_ins(range(12), [*members, "d"], owners, chosen) == chosen


def test_names_are_ordered_as_people_count() -> None:
    assert sorted(["count-10", "count-9", "count-1"], key=natural) == ["count-1", "count-9", "count-10"]
