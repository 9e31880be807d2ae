"""Workers that share Faust's data directory have directories of their own, and the same ones after a restart."""

from __future__ import annotations

import pytest

from statemgr.errors import StoreLockedError
from statemgr.faust import slots


def take(directory):
    return slots.take_slot(directory, sleep=lambda _: None)


def test_a_second_worker_gets_a_sibling(tmp_path):
    first, second = take(tmp_path / "statemgr"), take(tmp_path / "statemgr")
    assert [first.directory.name, second.directory.name] == ["statemgr", "statemgr-2"]
    assert first.holder != second.holder
    second.close()
    first.close()


def test_after_a_restart_directory_and_name_are_the_same(tmp_path):
    first = take(tmp_path / "statemgr")
    first.close()
    again = take(tmp_path / "statemgr")
    assert (again.directory, again.holder) == (first.directory, first.holder)
    again.close()


def test_who_has_stopped_in_order_can_be_told_from_who_was_killed(tmp_path):
    slot = take(tmp_path / "statemgr")
    assert slots.worker_lives(slot.directory)
    slot.close()
    assert not slots.worker_lives(slot.directory)
    assert not slots.has_left(slot.directory)
    take(tmp_path / "statemgr").leave()
    assert slots.has_left(slot.directory)
    take(tmp_path / "statemgr").close()
    assert not slots.has_left(slot.directory)


def test_worker_and_state_manager_agree_on_the_name(tmp_path):
    assert slots.holder_of(tmp_path) == slots.holder_of(tmp_path)


def test_too_many_workers_on_a_directory_are_refused_with_a_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(slots, "MAX_SLOTS", 1)
    first = take(tmp_path / "statemgr")
    with pytest.raises(StoreLockedError, match="--datadir"):
        take(tmp_path / "statemgr")
    first.close()
