"""Late rows in running stages: each row is either in its window or in the topic of late rows, once."""

from __future__ import annotations

import random
from collections import Counter

import polars as pl
import pytest

from tests.unit.towpath.stage.event_times import Harmed, end
from towpath.query import Query, hopping, session, tumbling, until

SCHEMA = {"k": pl.Int64, "v": pl.Int64, "t": pl.Int64}
WINDOWS = {"tumbling": tumbling(100), "hopping": hopping(100, 50), "session": session(12), "until": until("t")}


def query(window):
    found = Query("app", partitions=4)
    rows = found.source("in", schema=SCHEMA, event_time="t", lag_ms=10)
    keyed = rows.key_by("k").stage("count")
    windowed = keyed.window(window) if window == until("t") else keyed.window(window, on="t")
    windowed.late_to("late").count("n").sink("counts", key="k")
    return found


def disordered(seed):
    """Rows of both partitions, some of them far behind; ``v`` is different in each."""
    chance = random.Random(seed)
    times = [[1000 + n * 7 - chance.choice([0, 3, 9, 9, 150, 400]) for n in range(200)] for _ in range(2)]
    return [
        [{"k": chance.randrange(5), "v": 1000 * part + n, "t": time} for n, time in enumerate(each)]
        for part, each in enumerate(times)
    ]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("harm", ["nothing", "crash", "crash, stores lost", "restart", "scale"])
@pytest.mark.parametrize("kind", WINDOWS)
def test_every_row_is_counted_or_written_as_late_once(kind, harm, seed):
    rows = disordered(seed)
    driver = Harmed(query(WINDOWS[kind]), harm, seed, {"source": 1, "count": 2})
    driver.pipe_all(rows)
    end(driver.driver, {"k": 9, "v": -1, "t": 100_000})
    late = driver.driver.rows("late")
    counts = driver.driver.rows("counts")
    ids = Counter((row["v"], row.get("window_end") if kind != "session" else 0) for row in late)
    assert late
    assert set(ids.values()) == {1}
    everything = Counter(row["k"] for part in rows for row in part)
    found = Counter({key: sum(row["n"] for row in counts if row["k"] == key) for key in everything})
    found.update(row["k"] for row in late)
    assert found == Counter({key: n * (2 if kind == "hopping" else 1) for key, n in everything.items()})
    sent = {row["v"]: row for part in rows for row in part}
    assert all({name: row[name] for name in SCHEMA} == sent[row["v"]] for row in late)
    driver.driver.close()


def test_the_topic_has_the_key_of_the_stream_and_is_part_of_the_plan():
    (_, stage) = query(tumbling(100)).plan().stages
    late = stage.outputs[-1]
    assert (late.topic, late.key, late.partitions, late.default, late.inner) == ("late", ("k",), 4, False, False)
    assert list(stage.inputs[0].schema) == ["k", "v", "t"]
