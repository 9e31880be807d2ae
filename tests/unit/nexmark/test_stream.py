"""The stream as a whole: known vectors, agreement of its forms, and a second implementation."""

import hashlib
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nexmark
from nexmark import EVENT_SCHEMA, FIELDS, GeneratorConfig, NexmarkError, Profile, generate, generate_json, keys

BASE = 1_436_918_400_000
DEFAULT = GeneratorConfig()
SHUFFLED = GeneratorConfig(seed=7, out_of_order_group=1000, profile=Profile.sine(9000, 1000, 10))

configs = st.builds(
    GeneratorConfig,
    seed=st.sampled_from([42, 7]),
    profile=st.sampled_from([Profile.constant(1000), Profile.sine(900, 100, 7), Profile.spike(50, 9999, 1, 2)]),
    out_of_order_group=st.sampled_from([1, 7, 1000]),
    in_flight_auctions=st.sampled_from([1, 100, 5000]),
    active_people=st.sampled_from([1, 1000]),
    hot_batch=st.sampled_from([1, 100, 1000]),
    hot_auction_ratio=st.sampled_from([1, 2, 50]),
)
starts = st.integers(0, 200) | st.sampled_from([4900, 149_950, 449_990, 9_999_950, 10**12])


def parsed(lines):
    return [json.loads(line) for line in lines.to_pylist()]


@pytest.mark.parametrize(
    ("count", "digest"),
    [
        (10, "2abd3b465c26766806ce9839c9ece29410e2c2a1369d0a6fe370a5cc9efb8fa7"),  # pragma: allowlist secret
        (1_000, "25b3933a0db12d34b8c8228823a77e21b6e1fd20ab52073416226fd130984ced"),  # pragma: allowlist secret
        (60_000, "18b0a27146796ef181fc63336e66e749e8d9b698921f616c2b289eb414eee160"),  # pragma: allowlist secret
    ],
)
def test_lines_are_those_of_the_definition_byte_by_byte(count, digest):
    lines = generate_json(DEFAULT, 0, count).to_pylist()
    assert hashlib.sha256(b"\n".join(lines) + b"\n").hexdigest() == digest


def test_the_first_events_are_those_of_the_definition():
    events = parsed(generate_json(DEFAULT, 0, 6))
    person = events[0]
    assert (person["id"], person["name"], person["email_address"]) == (1000, "Luke Abrams", "utpqu@bcmb.com")
    assert (person["credit_card"], person["city"], person["state"]) == ("8811 8911 0040 2673", "Kent", "ID")
    auction = events[1]
    assert (auction["id"], auction["seller"], auction["category"]) == (1000, 1000, 12)
    assert (auction["initial_bid"], auction["reserve"], auction["item_name"]) == (1285992, 1304642, "wki")
    assert auction["expires"] == BASE + 1887
    bids = [(e["auction"], e["bidder"], e["price"], e["channel"]) for e in events[4:]]
    assert bids == [(1005, 1001, 297700, "Facebook"), (1000, 1001, 28970, "channel-1670")]


@settings(max_examples=60, deadline=None)
@given(configs, starts, st.integers(1, 70), st.sampled_from([1, 3, 50]))
def test_an_implementation_event_by_event_agrees(reference, config, start, count, step):
    expected = [reference(config).event(k) for k in range(start, start + count * step, step)]
    lines = generate_json(config, start, count, step).to_pylist()
    assert lines == [json.dumps(event, separators=(",", ":")).encode() for event in expected]


@pytest.mark.parametrize("config", [DEFAULT, SHUFFLED])
@pytest.mark.parametrize(("start", "step"), [(0, 1), (99_000, 7), (149_000, 3)])
def test_json_holds_exactly_the_columns_of_the_table(config, start, step):
    table = generate(config, start, 3000, step)
    table.validate(full=True)
    assert table.schema == EVENT_SCHEMA
    expected = [{name: row[name] for name in FIELDS[row["type"]]} for row in table.to_pylist()]
    lines = generate_json(config, start, 3000, step).to_pylist()
    assert lines == [json.dumps(row, separators=(",", ":")).encode() for row in expected]


def test_columns_of_other_kinds_are_null():
    for row in generate(DEFAULT, 0, 200).to_pylist():
        assert {name for name, value in row.items() if value is not None} == set(FIELDS[row["type"]])


def test_the_intended_time_is_the_last_key():
    schedule = np.array([0, 9, 10, 1_700_000_000_000, 5, 99, 100, 2**62], dtype=np.int64)
    plain = generate_json(DEFAULT, 0, 8).to_pylist()
    stamped = generate_json(DEFAULT, 0, 8, sched_ms=schedule).to_pylist()
    pairs = zip(plain, schedule.tolist(), strict=True)
    assert stamped == [line[:-1] + b',"sched_ms":%d}' % ms for line, ms in pairs]


@pytest.mark.parametrize("by", ["auction", "bidder"])
@pytest.mark.parametrize("start", [0, 449_000])
def test_keys_are_the_decimals_of_bids_and_null_elsewhere(by, start):
    expected = [None if by not in e else str(e[by]).encode() for e in parsed(generate_json(SHUFFLED, start, 3000))]
    made = keys(SHUFFLED, start, 3000, 1, by)
    made.validate(full=True)
    assert made.to_pylist() == expected


def test_large_calls_equal_small_ones():
    count = 70_000
    parts = [(s, 10_000) for s in range(0, count, 10_000)]
    assert generate_json(SHUFFLED, 0, count) == pa.concat_arrays(generate_json(SHUFFLED, *p) for p in parts)
    assert generate(SHUFFLED, 0, count) == pa.concat_batches([generate(SHUFFLED, *p) for p in parts])
    schedule = np.arange(count)
    stamped = generate_json(SHUFFLED, 0, count, sched_ms=schedule)
    assert stamped[69_999].as_py().endswith(b',"sched_ms":69999}')
    assert keys(SHUFFLED, 0, count, 1, "auction").null_count == 5600


def test_no_events_are_an_empty_result():
    assert len(generate_json(DEFAULT, 5, 0)) == 0
    assert generate(DEFAULT, 5, 0).num_rows == 0
    assert generate(DEFAULT, 5, 0).schema == EVENT_SCHEMA
    assert len(keys(DEFAULT, 5, 0, 1, "bidder")) == 0


@pytest.mark.parametrize("first", [0, 1, 4])
def test_a_step_of_fifty_meets_one_kind_only(first):
    kinds = {e["type"] for e in parsed(generate_json(DEFAULT, first, 100, 50))}
    assert len(kinds) == 1
    assert set(generate(DEFAULT, first, 100, 50)["type"].to_pylist()) == kinds


def test_another_seed_is_another_stream():
    assert generate_json(DEFAULT, 0, 5) != generate_json(GeneratorConfig(seed=43), 0, 5)


def test_delays_come_from_the_event_and_hit_the_given_share():
    delays = nexmark.delays_ms(DEFAULT, 0, 100_000)
    assert abs((delays > 0).mean() - 0.1) < 0.005
    assert delays.max() <= 3000
    shuffled = nexmark.delays_ms(GeneratorConfig(out_of_order_group=1000), 0, 100_000)
    assert sorted(shuffled.tolist()) == sorted(delays.tolist())
    assert not nexmark.delays_ms(DEFAULT, 0, 1000, probability=0).any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: generate_json(DEFAULT, 0, 2_000_001), "ask for at most 2000000 at a time"),
        (lambda: generate(DEFAULT, -1, 1), "is no range of events"),
        (lambda: generate_json(DEFAULT, 0, 2, sched_ms=np.zeros(3, dtype=np.int64)), "give 2 whole numbers"),
        (lambda: generate_json(DEFAULT, 0, 2, sched_ms=np.zeros(2)), "give 2 whole numbers"),
        (lambda: generate_json(DEFAULT, 0, 1, sched_ms=np.array([-1])), "before 1970"),
        (lambda: keys(DEFAULT, 0, 1, 1, "price"), "use one of auction, bidder"),
        (lambda: nexmark.delays_ms(DEFAULT, 0, 1, probability=2), "from 0 to 1"),
    ],
)
def test_impossible_requests_are_refused_with_a_remedy(call, message):
    with pytest.raises(NexmarkError, match=message):
        call()


def test_the_public_names_are_sorted_and_exist():
    assert nexmark.__all__ == sorted(nexmark.__all__, key=lambda n: (not n.isupper(), not n[0].isupper(), n))
    assert all(hasattr(nexmark, name) for name in nexmark.__all__)
