import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexmark import GeneratorConfig, NexmarkError, Profile


def test_in_order_emission_is_the_identity():
    indices = np.arange(10)
    assert GeneratorConfig().event_ids(indices).tolist() == indices.tolist()


def test_a_group_of_a_thousand_starts_in_steps_of_953():
    ids = GeneratorConfig(out_of_order_group=1000).event_ids(np.arange(6))
    assert ids.tolist() == [0, 953, 906, 859, 812, 765]


@given(st.integers(1, 3000).filter(lambda n: n % 953), st.integers(0, 10**12))
def test_emission_is_a_permutation_within_each_group(group, number):
    config = GeneratorConfig(out_of_order_group=group)
    ids = np.arange(number * group, (number + 2) * group)
    assert np.sort(config.event_ids(ids)).tolist() == ids.tolist()
    assert (config.event_ids(ids) // group == ids // group).all()


@pytest.mark.parametrize("group", [1, 50, 1000])
def test_nothing_is_emitted_behind_the_watermark(group):
    config = GeneratorConfig(out_of_order_group=group, profile=Profile.step(700, 90, 3))
    indices = np.arange(5 * group + 17)
    times = config.event_time_ms(config.event_ids(indices))
    earliest_to_come = np.minimum.accumulate(times[::-1])[::-1]
    assert (config.watermark_ms(indices) <= earliest_to_come).all()


def test_an_event_is_late_by_less_than_its_group():
    config = GeneratorConfig(out_of_order_group=1000, profile=Profile.constant(10_000))
    times = config.event_time_ms(config.event_ids(np.arange(100_000)))
    assert (np.maximum.accumulate(times) - times).max() in (99, 100)


def test_equal_settings_are_equal_hashable_and_picklable():
    config = GeneratorConfig(profile=Profile.sine(10, 2, 10))
    config.event_time_ms(np.arange(3))
    assert pickle.loads(pickle.dumps(config)) == config == GeneratorConfig(profile=Profile.sine(10, 2, 10))
    assert hash(config) == hash(GeneratorConfig(profile=Profile.sine(10, 2, 10)))


@pytest.mark.parametrize("group", [953, 1906])
def test_a_group_that_would_repeat_events_is_refused(group):
    with pytest.raises(NexmarkError, match=f"repeat some events and skip others: use {group + 1}"):
        GeneratorConfig(out_of_order_group=group)


@pytest.mark.parametrize(
    "name",
    ["out_of_order_group", "in_flight_auctions", "active_people", "hot_batch", "hot_auction_ratio",
     "hot_bidder_ratio", "hot_seller_ratio"],
)  # fmt: skip
def test_counts_and_ratios_start_at_one(name):
    with pytest.raises(NexmarkError, match=f"{name}=0 is too small"):
        GeneratorConfig(**{name: 0})


def test_time_before_the_epoch_is_refused():
    with pytest.raises(NexmarkError, match="before 1970"):
        GeneratorConfig(base_time_ms=-1)


@pytest.mark.parametrize(("start", "count", "step"), [(-1, 1, 1), (0, -1, 1), (0, 1, 0)])
def test_a_range_that_is_none_is_refused(start, count, step):
    with pytest.raises(NexmarkError, match="is no range of events"):
        GeneratorConfig().emission_indices(start, count, step)
