"""One per cent of broken records: each is set aside with its origin, the rest is processed, nothing stops twice."""

from __future__ import annotations

import json
import random

import polars as pl

from tests.unit.towpath.stage.plans import reference
from towpath.query import Query
from towpath.testing import StageDriver

BROKEN = [b"", b"\x00", b"null", b"[]", b'{"auction":"7x"}', b'{"auction":7', b"\xff\xfe", b"{" * 5000, None]


def cast_query() -> Query:
    """The auction comes as text; a text that is no number passes the decoder and fails in the cast."""
    query = Query("kc", partitions=3)
    texts = query.source("texts", schema={"auction": pl.String})
    numbers = texts.with_columns(pl.col("auction").cast(pl.Int64))
    numbers.key_by("auction").stage("count").count().sink("counts", key="auction")
    return query


def test_a_hundredth_of_the_records_is_broken_and_only_that_is_missing() -> None:
    generator = random.Random(5)
    records: list[bytes | None] = []
    good: list[int] = []
    for number in range(3000):
        if number % 100 == 50:
            records.append(generator.choice(BROKEN))
        else:
            good.append(generator.randrange(50))
            records.append(json.dumps({"auction": str(good[-1])}).encode())
    driver = StageDriver(cast_query(), json_batch_records=256, partitions={"texts": 3})
    driver.pipe("texts", records)
    driver.run_until_idle()
    assert driver.state("count", "count") == reference(good)
    letters = driver.output("kc.dead-letter")
    assert len(letters) == 30
    assert all(letter.headers["reason"] and letter.headers["stage"] == "source" for letter in letters)
    driver.restart()
    driver.run_until_idle()
    assert len(driver.output("kc.dead-letter")) == 30


def test_a_value_that_fails_in_an_operator_is_as_harmless_as_one_that_fails_in_the_decoder() -> None:
    driver = StageDriver(cast_query(), partitions={"texts": 1})
    driver.pipe("texts", [{"auction": "1"}, {"auction": "one"}, {"auction": ""}, {"auction": "1"}])
    driver.run_until_idle()
    assert driver.state("count", "count") == {b"1": 2}
    reasons = [letter.headers["reason"] for letter in driver.output("kc.dead-letter")]
    assert len(reasons) == 2
    assert all("conversion from `str` to `i64` failed" in reason for reason in reasons)
