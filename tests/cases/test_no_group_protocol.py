"""No client takes part in a consumer group: there is no rebalance to stall, to lose offsets in, or to loop for ever."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemgr.kafka.consumer import ConfluentConsumer
from statemgr.kafka.ports import Consumer
from statemgr.testing.consumer import FakeConsumer
from towpath.coordinator.placement import place

LIBRARIES = Path(__file__).parents[2] / "libs"
JOINING = re.compile(r"\.subscribe\(|incremental_assign\(.*on_|on_revoke|on_lost|partition\.assignment\.strategy")


def test_nothing_in_the_libraries_joins_a_group() -> None:
    sources = sorted(LIBRARIES.glob("*/src/**/*.py"))
    assert len(sources) > 100
    assert [str(path) for path in sources if JOINING.search(path.read_text())] == []


@pytest.mark.parametrize("kind", [Consumer, ConfluentConsumer, FakeConsumer])
def test_a_consumer_can_neither_subscribe_nor_commit(kind: type) -> None:
    assert not {"subscribe", "unsubscribe", "commit", "store_offsets", "on_assign"} & set(dir(kind))


@given(
    members=st.sets(st.sampled_from("abcdef"), min_size=2),
    partitions=st.sampled_from([0, 1, 7, 64]),
    later=st.sets(st.sampled_from("abcdef"), min_size=1),
)
def test_placement_is_final_after_one_round_whatever_the_members(
    members: set[str], partitions: int, later: set[str]
) -> None:
    """What is placed is placed so again: no round follows a round."""
    once = place(range(partitions), sorted(members), {})
    assert place(range(partitions), sorted(members), once) == once
    moved = place(range(partitions), sorted(later), once)
    assert place(range(partitions), sorted(later), moved) == moved
