"""What the package offers is sorted, and is there."""

from __future__ import annotations

import importlib

import pytest


@pytest.mark.parametrize("name", ["statemgr", "statemgr.store", "statemgr.changelog", "statemgr.state"])
def test_all_is_sorted_and_complete(name):
    module = importlib.import_module(name)
    constants = sorted(each for each in module.__all__ if each.isupper())
    classes = sorted(each for each in module.__all__ if each[0].isupper() and not each.isupper())
    functions = sorted(each for each in module.__all__ if each[0].islower())
    assert module.__all__ == constants + classes + functions
    assert all(hasattr(module, each) for each in module.__all__)
