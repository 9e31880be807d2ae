"""How many replicas there are follows what is wanted."""

from __future__ import annotations

from towpath.launch.fleet import Changes, Wanted, reconcile, wanted_of


def test_nothing_to_do() -> None:
    assert reconcile("count", Wanted(2), {"count-0", "count-1"}, set()) == Changes()


def test_missing_ones_are_started_under_the_lowest_free_names() -> None:
    assert reconcile("count", Wanted(3), {"count-1"}, set()) == Changes(start=("count-0", "count-2"))


def test_a_name_whose_process_is_still_leaving_is_not_used_again() -> None:
    assert reconcile("count", Wanted(2), {"count-0"}, {"count-1"}) == Changes(start=("count-2",))


def test_those_go_that_are_not_to_own_tasks() -> None:
    working = {"count-0", "count-1", "count-2"}
    assert reconcile("count", Wanted(2, {"count-0", "count-2"}), working, set()) == Changes(retire=("count-1",))


def test_without_a_choice_the_highest_index_goes() -> None:
    working = {f"count-{index}" for index in range(12)}
    assert reconcile("count", Wanted(9), working, set()) == Changes(retire=("count-9", "count-10", "count-11"))


def test_before_anything_is_decided_there_are_as_many_as_at_the_start() -> None:
    assert wanted_of("count", None, {"count-0"}, {"count": 2}) == Wanted(2)


def test_a_choice_that_is_not_complete_yet_is_none() -> None:
    assert wanted_of("count", 3, {"count-0"}, {"count": 1}) == Wanted(3, ())
    assert wanted_of("count", 1, {"count-2"}, {"count": 1}) == Wanted(1, {"count-2"})
