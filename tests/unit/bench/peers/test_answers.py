"""The data, the right answers, and that a wrong one is found."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import polars as pl
import pytest

from bench.peers.data import CHUNK, Chunk, chunks, drawn_keys
from bench.peers.expected import OUTPUT_FIELDS, expected
from bench.peers.jobs import JOBS, job_named
from bench.peers.model import PARTITIONS, Data
from bench.peers.outputs import differences
from statemgr.partitioner import partition_of

pytestmark = pytest.mark.slow

EVENTS = 2_000


def decoded(chunk: Chunk) -> list[dict[str, object]]:
    return [json.loads(value) for value in chunk.values.to_pylist()]


def test_short_bids_lie_in_the_partition_of_their_key():
    (chunk,) = chunks(Data.UNIFORM_100K, EVENTS)
    assert chunk.keys is not None
    keys = chunk.keys.to_pylist()
    assert [int(key) for key in keys] == drawn_keys(Data.UNIFORM_100K, EVENTS).tolist()
    assert [bid["auction"] for bid in decoded(chunk)] == [int(key) for key in keys]
    assert chunk.partitions.tolist() == [partition_of(key, PARTITIONS) for key in keys]


def test_events_go_on_over_chunks_and_repeat_from_run_to_run():
    sizes = [len(chunk.values) for chunk in chunks(Data.UNIFORM_100K, CHUNK + 10)]
    assert sizes == [CHUNK, 10]
    first, again = (next(chunks(Data.NEXMARK, EVENTS)).values for _ in range(2))
    assert first.equals(again)


def test_the_first_ten_million_uniform_keys_are_all_different():
    keys = drawn_keys(Data.UNIFORM_10M, 10_000_100)
    assert np.unique(keys[:10_000_000]).size == 10_000_000
    assert keys.max() < 10_000_000


def test_zipf_keys_are_as_skewed_as_the_law_says():
    _, counts = np.unique(drawn_keys(Data.ZIPF_10M, 200_000), return_counts=True)
    top = np.sort(counts)[::-1]
    assert top[0] / 200_000 == pytest.approx(1 / np.log(10_000_000), rel=0.1)
    assert top[0] / top[9] == pytest.approx(10, rel=0.2)


def test_the_right_counts_are_those_of_a_plain_loop():
    job = job_named("count-bids")
    events = [event for chunk in chunks(job.data, EVENTS) for event in decoded(chunk)]
    plain = Counter(event["auction"] for event in events if event["type"] == "bid")
    assert dict(expected(job, EVENTS).iter_rows()) == plain


def test_the_right_counts_of_windows_are_those_of_a_plain_loop():
    events = decoded(next(chunks(Data.NEXMARK, 40_000)))
    assert max(event["date_time"] for event in events) == events[0]["date_time"] + 39_999
    begin = events[0]["date_time"]
    plain = Counter(
        (event["auction"], event["date_time"] // 10_000 * 10_000)
        for event in events
        if event["type"] == "bid" and event["date_time"] < begin + 20_000
    )
    rows = expected(job_named("tumbling"), 40_000)
    assert {(auction, start): count for auction, start, count in rows.iter_rows()} == plain


def test_the_right_joined_rows_are_those_of_a_plain_loop():
    events = decoded(next(chunks(Data.NEXMARK, 40_000)))
    persons = {event["id"]: event for event in events if event["type"] == "person"}
    plain = [
        (*(persons[event["seller"]][name] for name in ("name", "city", "state")), event["id"])
        for event in events
        if event["type"] == "auction" and event["category"] == 10 and event["seller"] in persons
        if persons[event["seller"]]["state"] in ("OR", "ID", "CA")
    ]
    assert len(plain) > 100
    assert sorted(expected(job_named("q3"), 40_000).rows()) == sorted(plain)


def test_the_right_rows_are_those_of_a_plain_loop():
    def row(job: str, bid: dict[str, object]) -> tuple[object, ...]:
        parts = str(bid["url"]).split("/")
        fields = {**bid, "dir1": parts[3], "dir2": parts[4], "dir3": parts[5]}
        if job == "q1":
            fields["price"] = pytest.approx(int(str(bid["price"])) * 0.908)
        return tuple(fields[name] for name in OUTPUT_FIELDS[job])

    events = decoded(next(chunks(Data.NEXMARK, EVENTS)))
    bids = [event for event in events if event["type"] == "bid"]
    for name in ("q0", "q1", "q22"):
        assert expected(job_named(name), EVENTS).rows() == [row(name, bid) for bid in bids]
    selected = [row("q2", bid) for bid in bids if int(str(bid["auction"])) % 123 == 0]
    assert expected(job_named("q2"), EVENTS).rows() == selected


def with_positions(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(partition=pl.lit(0), offset=pl.int_range(pl.len()))


@pytest.mark.parametrize("name", ["q0", "q1", "q22", "count-bids"])
def test_right_outputs_differ_in_nothing_whatever_their_order(name: str):
    job = job_named(name)
    right = expected(job, EVENTS)
    assert differences(job.program, with_positions(right.reverse()), right) is None


def test_a_count_may_have_gone_up_in_steps_but_must_end_at_the_right_one():
    right = pl.DataFrame({"auction": [1, 2], "count": [3, 1]})
    steps = pl.DataFrame({"auction": [1, 2, 1], "count": [1, 1, 3]})
    assert differences("count", steps, right) is None
    assert "1 of 2 rows are wrong" in str(differences("count", steps.head(2), right))


def test_of_windows_those_count_that_the_events_end():
    right = pl.DataFrame({"auction": [1, 2], "window_start": [0, 10_000], "count": [3, 1]})
    later = pl.DataFrame({"auction": [1, 1], "window_start": [0, 20_000], "count": [2, 7]})
    assert differences("tumbling", pl.concat([later, right]), right) is None
    assert "1 rows where 2" in str(differences("tumbling", pl.concat([later, right.head(1)]), right))


def test_joined_rows_may_be_told_again():
    right = pl.DataFrame({"name": ["Ann"], "city": ["Bend"], "state": ["OR"], "id": [1]})
    assert differences("q3", pl.concat([right, right]), right) is None
    assert "2 rows where 1" in str(
        differences("q3", pl.concat([right, right.with_columns(id=pl.lit(2, pl.Int64))]), right)
    )


def test_a_lost_a_doubled_and_a_changed_row_are_found():
    right = expected(job_named("q0"), EVENTS)
    changed = right.with_columns(price=pl.col("price") + (pl.int_range(pl.len()) == 5).cast(pl.Int64))
    assert "1,839 rows where 1,840" in str(differences("q0", right.tail(-1), right))
    assert "1,841 rows where 1,840" in str(differences("q0", pl.concat([right, right.head(1)]), right))
    assert "rows are wrong" in str(differences("q0", changed, right))


def test_jobs_have_names_of_their_own():
    assert len({job.name for job in JOBS}) == len(JOBS)
    with pytest.raises(ValueError, match="there is no job 'q33'; jobs: q0, "):
        job_named("q33")
