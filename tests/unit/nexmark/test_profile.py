import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexmark import NexmarkError, Profile, Segment

segments = st.builds(Segment, st.integers(1, 5000), st.integers(1, 3000))
profiles = st.builds(lambda s: Profile(tuple(s)), st.lists(segments, min_size=1, max_size=5)) | st.builds(
    lambda s: Profile((*s, Segment(1000, 7)), repeat=True), st.lists(segments, max_size=4)
)


def rates(profile):
    return [segment.rate for segment in profile.segments]


def test_sine_has_ten_steps_from_the_first_rate_over_the_second_and_back():
    profile = Profile.sine(10_000, 2_000, 600)
    assert rates(profile) == [10000, 9236, 7236, 4764, 2764, 2000, 2764, 4764, 7236, 9236]
    assert {s.duration_ms for s in profile.segments} == {60_000}
    assert profile.repeat


def test_square_is_half_a_period_each():
    assert Profile.square(5, 9, 10).segments == (Segment(5000, 5), Segment(5000, 9))


def test_step_continues_forever_at_the_second_rate():
    profile = Profile.step(10, 1000, 2)
    assert profile.offsets_ms(np.array([0, 19, 20, 21, 10_020])).tolist() == [0, 1900, 2000, 2001, 12_000]


def test_spike_returns_to_the_base_rate():
    profile = Profile.spike(10, 100, 1, 0.5)
    numbers = np.array([9, 10, 59, 60, 61])
    assert profile.offsets_ms(numbers).tolist() == [900, 1000, 1490, 1500, 1600]


def test_rescale_has_warm_up_baseline_load_and_drain():
    profile = Profile.rescale(1000, 3000)
    assert [(s.duration_ms, s.rate) for s in profile.segments] == [
        (120_000, 1000),
        (60_000, 1000),
        (120_000, 3000),
        (60_000, 1000),
    ]


@pytest.mark.parametrize("rate", [1, 3, 7, 1000, 999_983, 10_000_000])
def test_constant_time_is_the_floor_of_the_exact_time_without_drift(rate):
    numbers = np.array([0, 1, 2, 1000, 10**9, 10**12], dtype=np.int64)
    profile = Profile.constant(rate)
    assert profile.offsets_ms(numbers).tolist() == [e * 1000 // rate for e in numbers.tolist()]
    assert profile.offsets_us(numbers).tolist() == [e * 1_000_000 // rate for e in numbers.tolist()]


@given(profiles, st.integers(0, 30_000))
def test_count_until_is_the_number_of_offsets_below(profile, ms):
    offsets = profile.offsets_ms(np.arange(profile.count_until(ms) + 50))
    assert profile.count_until(ms) == int((offsets < ms).sum())


@given(profiles)
def test_time_never_runs_backwards_and_microseconds_refine_milliseconds(profile):
    numbers = np.arange(20_000)
    offsets = profile.offsets_ms(numbers)
    assert (np.diff(offsets) >= 0).all()
    assert (profile.offsets_us(numbers) // 1000 == offsets).all()


@given(profiles, st.permutations(list(range(0, 9000, 300))))
def test_offsets_do_not_depend_on_the_company_of_a_number(profile, numbers):
    together = profile.offsets_ms(np.array(numbers)).tolist()
    assert together == [profile.offsets_ms(np.array([n])).item() for n in numbers]


def test_no_numbers_give_no_offsets():
    assert Profile.sine(2, 1, 10).offsets_ms(np.array([], dtype=np.int64)).tolist() == []


@pytest.mark.parametrize(
    ("text", "profile"),
    [
        ("constant(10000)", Profile.constant(10_000)),
        (" step( 2000, 5000, 60 ) ", Profile.step(2000, 5000, 60)),
        ("sine(10000,2000,600)", Profile.sine(10_000, 2000, 600)),
        ("square(1,2,3)", Profile.square(1, 2, 3)),
        ("spike(1000,9000,30,2.5)", Profile.spike(1000, 9000, 30, 2.5)),
        ("rescale(1000,2000)", Profile.rescale(1000, 2000)),
    ],
)
def test_text_and_constructor_agree_and_text_round_trips(text, profile):
    assert Profile.parse(text) == profile
    assert Profile.parse(str(profile)) == profile


@pytest.mark.parametrize(
    "text", ["", "constant", "constant()", "constant(1,2)", "constant(a)", "constant(1.5)", "offsets_ms(1)",
             "parse(x)", "step(1,2)", "step(1,2,x)", "saw(1,2,3)", "constant(1)!"]
)  # fmt: skip
def test_unreadable_text_is_answered_with_the_valid_forms(text):
    with pytest.raises(NexmarkError, match=r"use one of: constant\(rate\), step\(first, second, at_s\), "):
        Profile.parse(text)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Profile.constant(0), "a rate of 0 events/s is out of range"),
        (lambda: Profile.sine(100, 0, 600), "a rate of 0 events/s"),
        (lambda: Profile.step(1, 2, 0), "at least 1 ms"),
        (lambda: Profile(()), "at least one segment"),
        (lambda: Profile((Segment(10, 1),), repeat=True), "never advances"),
        (lambda: Profile.parse("step(1,2,inf)"), "a whole number of milliseconds"),
        (lambda: Profile.parse("step(1,2,nan)"), "a whole number of milliseconds"),
    ],
)
def test_impossible_rates_and_durations_are_refused(make, message):
    with pytest.raises(NexmarkError, match=message):
        make()
