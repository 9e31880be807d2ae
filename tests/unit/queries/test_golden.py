"""Queries over the first minute of the event model at 1,000 events a second, against results from elsewhere.

The expected figures were computed by SQL over the same 60,000 events, by code that shares nothing with the queries.
"""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from nexmark import GeneratorConfig, generate_json
from queries import q0, q2, q3, q4, q5, q6, q7, q8, q9, q10, q11, q13, q14, q15, q16, q17, q18, q19, q20, q21, q22
from tests.harness.files import files_in, markers_in
from towpath.testing import StageDriver

TOPIC = "nexmark-events"
EVENTS = 60_000
BATCH = 15_000


@pytest.fixture(scope="module")
def lines():
    return generate_json(GeneratorConfig(seed=42), 0, EVENTS, sched_ms=np.arange(EVENTS)).to_pylist()


END = json.dumps({"type": "end", "date_time": 2_000_000_000_000, "sched_ms": 0}).encode()
"""Nothing that happened, later than all windows."""


def results(module, lines, keys=(), *, end=False, **settings):
    """The sink's rows; of a sink with keys, the last row of each. ``end``: event time goes to the end at last."""
    query = module.build(**settings)
    driver = StageDriver(query)
    for begin in range(0, EVENTS, BATCH):
        driver.pipe(TOPIC, lines[begin : begin + BATCH])
        driver.run_until_idle()
    if end:
        driver.pipe(TOPIC, [END] * 64)
        for _ in range(5):  # from stage to stage
            driver.advance_time(200)
            driver.run_until_idle()
    rows = driver.rows(query.app)
    driver.close()
    return list({tuple(row[key] for key in keys): row for row in rows}.values()) if keys else rows


def total(rows, column):
    return sum(row[column] for row in rows)


def test_q0(lines):
    rows = results(q0, lines)
    assert (len(rows), total(rows, "price")) == (55_200, 398_215_889_351)


def test_q2(lines):
    rows = results(q2, lines)
    assert (len(rows), total(rows, "price"), len({row["auction"] for row in rows})) == (227, 1_733_405_312, 29)


def test_q3(lines):
    rows = results(q3, lines)
    assert (len(rows), total(rows, "id"), len({row["name"] for row in rows}) <= 104) == (573, 1_546_053, True)


def test_q4(lines):
    rows = results(q4, lines, ["category"])
    assert {row["category"]: (row["sum"], row["count"], row["avg_final"]) for row in rows} == {
        10: (22_069_430_742, 711, 31_039_986),
        11: (18_728_857_929, 674, 27_787_623),
        12: (18_551_536_510, 690, 26_886_284),
        13: (19_653_405_411, 659, 29_823_073),
        14: (17_788_186_161, 620, 28_690_622),
    }


def test_q4_on_close(lines):
    rows = results(q4, lines, ["category"], end=True, mode="on_close")
    assert {row["category"]: (row["sum"], row["count"], row["avg_final"]) for row in rows} == {
        10: (22_042_002_009, 711, 31_001_409),
        11: (18_728_857_929, 674, 27_787_623),
        12: (18_533_884_785, 689, 26_899_687),
        13: (19_653_402_102, 658, 29_868_392),
        14: (17_788_186_161, 620, 28_690_622),
    }


def test_q6(lines):
    rows = results(q6, lines, end=True)
    assert (len(rows), total(rows, "avg_price"), len({row["seller"] for row in rows})) == (3_352, 95_623_451_319, 506)


def test_q9_on_close(lines):
    rows = results(q9, lines, end=True, mode="on_close")
    assert (len(rows), total(rows, "price")) == (3_352, 96_746_332_986)


def test_q5(lines):
    rows = results(q5, lines, end=True)
    assert (len(rows), total(rows, "num")) == (35, 27_979)
    base = 1_436_918_400_000
    found = {(row["window_start"] - base, row["window_end"] - base): (row["auction"], row["num"]) for row in rows}
    assert [found[(start * 1000, start * 1000 + 10_000)] for start in (0, 2, 4, 6, 8)] == [
        (1000, 808),
        (1200, 794),
        (1600, 793),
        (1800, 843),
        (1800, 843),
    ]


def test_q7(lines):
    rows = results(q7, lines, end=True)
    base = 1_436_918_400_000
    found = {(row["date_time"] - base) // 10_000: (row["auction"], row["bidder"], row["price"]) for row in rows}
    assert len(rows) == 6
    assert found == {
        0: (1500, 1101, 99_979_079),
        1: (1800, 1201, 99_871_460),
        2: (2700, 1501, 99_892_374),
        3: (3100, 1482, 99_938_172),
        4: (3389, 1798, 99_490_899),
        5: (4000, 2001, 99_931_582),
    }


def test_q8(lines):
    assert len(results(q8, lines, end=True)) == 217


def test_q9(lines):
    rows = results(q9, lines, ["id"])
    assert (len(rows), total(rows, "price")) == (3_354, 96_791_416_753)


def test_q10(lines, tmp_path):
    directory = tmp_path / "bids"
    announced = results(q10, lines, end=True, directory=str(directory), roll_rows=5_000)
    rows = pl.concat(pl.read_parquet(directory / file, hive_partitioning=False) for file in files_in(directory))
    assert (rows.height, rows.get_column("price").sum()) == (55_200, 398_215_889_351)
    assert (total(announced, "rows"), len(announced)) == (55_200, len(files_in(directory)))
    assert markers_in(directory) == ["dt=2015-07-15/hm=00%3A00"]


def test_q11(lines):
    rows = results(q11, lines, end=True)
    assert (len(rows), len({row["bidder"] for row in rows}), total(rows, "bid_count")) == (1_407, 1_124, 55_200)


def test_q13(lines):
    rows = results(q13, lines)
    assert len(rows) == 55_200
    assert all(row["value"] == str(row["auction"] % 10_000) for row in rows)


def test_q14(lines):
    assert len(results(q14, lines)) == 15_619


def test_q15(lines):
    (row,) = results(q15, lines, ["day"])
    counts = [value for name, value in row.items() if name.split("_")[0] in ("total", "rank1", "rank2", "rank3")]
    assert counts == [55_200, 18_428, 18_411, 18_361, 1_124, 951, 984, 970, 3_597, 3_284, 3_332, 3_336]


def test_q16(lines):
    rows = results(q16, lines, ["channel", "day"])
    assert (len(rows), total(rows, "total_bids")) == (9_347, 55_200)


def test_q17(lines):
    rows = results(q17, lines, ["auction", "day"])
    assert len(rows) == 3_597
    assert (total(rows, "total_bids"), total(rows, "sum_price")) == (55_200, 398_215_889_351)
    assert [total(rows, f"rank{n}_bids") for n in (1, 2, 3)] == [18_428, 18_411, 18_361]


def test_q18(lines):
    assert len(results(q18, lines, ["bidder", "auction"])) == 16_548


def test_q19(lines):
    rows = results(q19, lines, ["auction", "rank_number"])
    assert len(rows) == 26_423
    by_place = {(row["auction"], row["rank_number"]): row["price"] for row in rows}
    assert all(price <= by_place.get((auction, place - 1), price) for (auction, place), price in by_place.items())


def test_q20(lines):
    rows = results(q20, lines)
    assert (len(rows), total(rows, "price")) == (15_834, 116_354_531_093)


def test_q21(lines):
    assert len(results(q21, lines)) == 52_387


def test_q22(lines):
    assert len(results(q22, lines)) == 55_200
