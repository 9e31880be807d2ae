"""Which environment the processes get for their allocator."""

from __future__ import annotations

import pytest

from towpath.launch.allocator import with_allocator


def _found(_name: str) -> str | None:
    return "libtcmalloc_minimal.so.4"


def test_the_allocator_is_preloaded_where_the_system_has_it() -> None:
    assert with_allocator({"HOME": "/h"}, _found, "linux") == {"HOME": "/h", "LD_PRELOAD": "libtcmalloc_minimal.so.4"}


@pytest.mark.parametrize("given", [{"TOWPATH_ALLOCATOR": "system"}, {"LD_PRELOAD": "other.so"}])
def test_what_is_chosen_already_stays(given: dict[str, str]) -> None:
    assert with_allocator(given, _found, "linux") == given


def test_without_it_nothing_changes() -> None:
    assert with_allocator({}, lambda _name: None, "linux") == {}
    assert with_allocator({}, _found, "darwin") == {}
