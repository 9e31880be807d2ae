"""Options are read once; each error names the option and the remedy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.errors import OptionError
from loadgen.options import SourceOptions, parse_count, parse_duration_ms


@pytest.mark.parametrize(
    ("text", "millis"), [("60s", 60_000), ("60", 60_000), ("500ms", 500), ("2m", 120_000), ("1.5h", 5_400_000)]
)
def test_durations_have_units(text: str, millis: int) -> None:
    assert parse_duration_ms(text) == millis


@pytest.mark.parametrize("text", ["", "soon", "-5s", "0", "5 parsecs"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"--duration='.*' is no length of time; write for example 60s"):
        parse_duration_ms(text, "--duration")


@pytest.mark.parametrize(
    ("text", "count"), [("250000", 250_000), ("250k", 250_000), ("2M", 2_000_000), ("1_000", 1000), ("1.5k", 1500)]
)
def test_counts_have_suffixes(text: str, count: int) -> None:
    assert parse_count(text, "events") == count


@pytest.mark.parametrize("text", ["", "0", "-1", "many", "_"])
def test_what_is_no_count_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"events='.*' is no number of events"):
        parse_count(text, "events")


OPTIONS = st.builds(
    SourceOptions,
    seed=st.integers(0, 2**63),
    profile=st.sampled_from(["constant(5)", "sine(1000,50,10)"]),
    events=st.none() | st.integers(1, 10**9),
    duration_ms=st.none() | st.integers(1, 10**9),
    start=st.integers(0, 10**9),
    readers=st.integers(1, 64),
    key=st.sampled_from(["none", "auction", "bidder"]),
    topic_partitions=st.none() | st.integers(1, 256),
    t0_ms=st.none() | st.integers(0, 2**42),
    stamp_now=st.booleans(),
    tick_ms=st.floats(0.5, 100),
    generator=st.dictionaries(st.sampled_from(["hot_batch", "active_people"]), st.integers(1, 99).map(str)),
)


@given(OPTIONS)
def test_options_survive_the_way_through_spark(options: SourceOptions) -> None:
    lowered = {name.lower(): value for name, value in options.to_options().items()}
    assert SourceOptions.from_options(lowered) == options


def test_a_misspelt_option_is_not_silently_the_default() -> None:
    with pytest.raises(OptionError, match="unknown option sead; known are chunkrows, duration"):
        SourceOptions.from_options({"sead": "1"})


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("seed", "x", "seed='x' must be a whole number, at least 0"),
        ("readers", "0", "readers='0' must be a whole number, at least 1"),
        ("tickMs", "0", "tickms='0' must be a positive number of milliseconds"),
        ("key", "price", "key='price' must be one of none, auction, bidder"),
        ("stampNow", "yes", "stampnow='yes' must be true or false"),
        ("profile", " ", "profile is empty"),
    ],
)
def test_a_bad_value_is_named(name: str, text: str, message: str) -> None:
    with pytest.raises(OptionError) as raised:
        SourceOptions.from_options({name: text})
    assert str(raised.value) == message
