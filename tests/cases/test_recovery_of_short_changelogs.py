"""Recovery has no off-by-one at the edges: no record, one, two, one that was deleted; with and without a store."""

from __future__ import annotations

from typing import Any

import pytest

from statemgr.layout import PROGRESS_KEY
from tests.unit.towpath.stage.plans import CHANGELOG, SOURCE, bids, count_stage, reference
from towpath.testing import StageDriver


@pytest.mark.parametrize("start_from", ["earliest", "latest"])
@pytest.mark.parametrize("lose_stores", [False, True], ids=["store-kept", "store-lost"])
@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("records", [0, 1, 2, 3])
def test_every_short_changelog_is_recovered(records: int, compacted: bool, lose_stores: bool, start_from: Any) -> None:
    driver = StageDriver(count_stage(), partitions={SOURCE: 1}, start_from=start_from)
    driver.run_until_idle()
    driver.run_once()
    for auction in range(records):
        driver.pipe(SOURCE, bids([auction]))
        driver.run_until_idle()
    if compacted:
        driver.kafka.compact(CHANGELOG)
    driver.crash("count", lose_stores=lose_stores)
    driver.pipe(SOURCE, bids([0]))
    driver.run_until_idle()
    assert driver.state("count", "count") == reference([*range(records), 0])


def test_the_last_progress_record_decides_although_the_group_lost_its_offsets() -> None:
    driver = StageDriver(count_stage(), partitions={SOURCE: 1})
    driver.pipe(SOURCE, bids([1, 1]))
    driver.run_until_idle()
    driver.kafka.cluster.group_offsets.clear()
    driver.kafka.compact(CHANGELOG)
    assert [record.key for record in driver.output(CHANGELOG)][-1] == PROGRESS_KEY
    driver.crash("count", lose_stores=True)
    driver.pipe(SOURCE, bids([1]))
    driver.run_until_idle()
    assert driver.state("count", "count") == {b"1": 3}
