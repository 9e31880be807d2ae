from __future__ import annotations

import pytest

from towpath.cli.options import parse_counts, parse_pairs
from towpath.errors import SettingsError


def test_a_value_that_is_json_is_read_as_such_and_else_as_text() -> None:
    pairs = ["n=3", "x=0.5", "on=true", "list=[1, 2]", "text=abc", "empty=", "equals=a=b", "none=null"]
    assert parse_pairs(pairs, "--set") == {
        "n": 3,
        "x": 0.5,
        "on": True,
        "list": [1, 2],
        "text": "abc",
        "empty": "",
        "equals": "a=b",
        "none": None,
    }
    assert parse_pairs(None, "--set") == {}


@pytest.mark.parametrize("pair", ["name", "=3", ""])
def test_a_pair_without_name_or_value_is_named_with_its_option(pair: str) -> None:
    with pytest.raises(SettingsError, match=rf"--set '{pair}': expected name=value"):
        parse_pairs([pair], "--set")


def test_counts_are_whole_numbers_by_stage() -> None:
    assert parse_counts(["count=2", "source=1"], "--replicas") == {"count": 2, "source": 1}


@pytest.mark.parametrize("pair", ["count=two", "count=1.5", "count=true", "count="])
def test_a_count_that_is_no_whole_number_is_named_with_an_example(pair: str) -> None:
    with pytest.raises(SettingsError, match=r"--replicas count=.*: expected a whole number, e\.g\. count=2"):
        parse_counts([pair], "--replicas")


def test_two_numbers_for_one_stage_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"scale: count is named 2 times; say one number for it"):
        parse_counts(["count=1", "source=1", "count=2"], "scale")
