"""A counter loses no update, however many there are, across restarts at any point."""

from __future__ import annotations

import pytest

from tests.unit.towpath.stage.plans import SINK, SOURCE, bids, count_stage
from towpath.testing import StageDriver

EVENTS = 20_000


@pytest.mark.parametrize("lose_stores", [False, True], ids=["store-kept", "store-lost"])
def test_one_key_counts_every_event_once_in_order_also_across_a_crash_half_way(lose_stores: bool) -> None:
    driver = StageDriver(count_stage(), partitions={SOURCE: 1}, json_batch_records=1000, dirty_entries=1)
    driver.pipe(SOURCE, bids([7] * EVENTS))
    for _ in range(EVENTS // 2000):
        driver.run_once()
    driver.crash("count", lose_stores=lose_stores)
    driver.run_until_idle()
    assert [row["count"] for row in driver.rows(SINK)] == list(range(1, EVENTS + 1))
    assert driver.state("count", "count") == {b"7": EVENTS}
