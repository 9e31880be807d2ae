"""A key that is deleted stays deleted, and one that is set again is there, after a restore from the changelog alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemgr.errors import ProducerLostError
from towpath.operators.process import KeyState
from towpath.query import Query
from towpath.testing import StageDriver


def apply(row: dict[str, Any], state: KeyState) -> Iterator[dict[str, Any]]:
    """A null value deletes the key."""
    if row["value"] is None:
        state.delete()
    else:
        state.set(row["value"])
    yield {"key": row["key"], "value": state.get(-1)}


def registry() -> StageDriver:
    query = Query("registry", partitions=2)
    changes = query.source("changes", schema={"key": pl.String, "value": pl.Int64})
    schema = {"key": pl.String, "value": pl.Int64}
    changes.key_by("key").stage("registry").process(apply, schema=schema, name="values").sink("values", key="key")
    return StageDriver(query, json_batch_records=4, partitions={"changes": 1})


Change = tuple[str, int | None]
CHANGES = st.lists(st.tuples(st.sampled_from("abcde"), st.none() | st.integers(0, 9)), max_size=20)


def pipe(driver: StageDriver, changes: list[Change]) -> None:
    driver.pipe("changes", [{"key": key, "value": value} for key, value in changes])


def expected(changes: list[Change]) -> dict[bytes, int]:
    return {key.encode(): value for key, value in dict(changes).items() if value is not None}


@settings(max_examples=25, deadline=None)
@given(before=CHANGES, after=CHANGES)
def test_any_sequence_of_sets_and_deletes_is_restored(before: list[Change], after: list[Change]) -> None:
    driver = registry()
    pipe(driver, before)
    driver.run_until_idle()
    driver.crash("registry", lose_stores=True)
    pipe(driver, after)
    driver.run_until_idle()
    assert driver.state("registry", "values") == expected(before + after)
    assert driver.changelog_state("registry", "values") == expected(before + after)


@pytest.mark.parametrize("drop_tombstones", [False, True])
def test_a_compacted_changelog_with_and_without_its_tombstones_restores_the_same(drop_tombstones: bool) -> None:
    driver = registry()
    pipe(driver, [("a", 1), ("b", 2)])
    driver.run_until_idle()
    pipe(driver, [("a", None), ("b", 3), ("c", None)])
    driver.run_until_idle()
    driver.kafka.compact("registry.registry.changelog", drop_tombstones=drop_tombstones)
    driver.crash("registry", lose_stores=True)
    driver.run_until_idle()
    assert driver.state("registry", "values") == {b"b": 3}


def test_a_delete_whose_transaction_was_lost_did_not_happen() -> None:
    driver = registry()
    pipe(driver, [("a", 1)])
    driver.run_until_idle()
    driver.kafka.fail_next("commit", ProducerLostError("lost"), client="registry-0")
    pipe(driver, [("a", None), ("a", 2)])
    driver.run_until_idle()
    assert driver.state("registry", "values") == {b"a": 2}
