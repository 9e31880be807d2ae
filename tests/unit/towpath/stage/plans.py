"""Queries and plans that the tests of the stage runtime share, and their results computed in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import polars as pl

from statemgr.state import TableSpec, json_codec
from towpath.operators.count import KeyedCount
from towpath.query import Query
from towpath.query.plan import Edge, Format, InputPlan, OperatorPlan, OutputPlan, StagePlan
from towpath.testing import StageDriver

SOURCE = "bids"
SINK = "counts"
APP = "kc"
CHANGELOG = "kc.count.changelog"
DEAD = "kc.dead-letter"

Emit = Literal["batch", "each"]


def key_count(emit: Emit = "batch", partitions: int = 4) -> Query:
    """Source → hash edge → count → sink."""
    query = Query(APP, partitions=partitions)
    bids = query.source(SOURCE, schema={"auction": pl.Int64})
    bids.key_by("auction").stage("count").count(emit=emit).sink(SINK, key="auction")
    return query


def count_stage(emit: Emit = "each", partitions: int = 2, *, source_partitions: int | None = None) -> StagePlan:
    """Counts in one stage, straight from JSON: the shortest stateful stage."""
    return StagePlan(
        app=APP,
        name="count",
        inputs=(InputPlan(SOURCE, Format.JSON, {"auction": pl.Int64}, source_partitions),),
        operators=(OperatorPlan("count", lambda: KeyedCount(["auction"], "count", "count", each=emit == "each")),),
        outputs=(OutputPlan(SINK, Format.JSON, Edge.HASH, ("auction",), partitions, inner=False),),
        tables=(TableSpec("count", 0, json_codec(int)),),
    )


def pass_stage(
    schema: Mapping[str, Any] | None = None, operators: Sequence[OperatorPlan] = (), edge: Edge = Edge.FORWARD
) -> StagePlan:
    """A stateless stage from JSON to JSON."""
    return StagePlan(
        app=APP,
        name="pass",
        inputs=(InputPlan(SOURCE, Format.JSON, schema or {"auction": pl.Int64}),),
        operators=tuple(operators),
        outputs=(OutputPlan(SINK, Format.JSON, edge, ("auction",) if edge is Edge.HASH else (), 2, inner=False),),
    )


def bids(auctions: Iterable[int]) -> list[dict[str, int]]:
    return [{"auction": auction} for auction in auctions]


def random_auctions(count: int, keys: int, seed: int = 1) -> list[int]:
    generator = random.Random(seed)
    return [generator.randrange(keys) for _ in range(count)]


def reference(auctions: Iterable[int]) -> dict[bytes, int]:
    """Final state of a count: key text → rows."""
    return {str(auction).encode(): rows for auction, rows in Counter(auctions).items()}


def outputs_by_key(driver: StageDriver, topic: str = SINK) -> dict[int, list[int]]:
    """Auction → its counts in the order in which a reader sees them."""
    found: dict[int, list[int]] = {}
    for record in driver.output(topic):
        found.setdefault(record.value["auction"], []).append(record.value["count"])
    return found


def assert_exactly_once(driver: StageDriver, auctions: Sequence[int], emit: Emit) -> None:
    """Outputs, state and changelog equal those of a run without any fault (I2, I5)."""
    expected = reference(auctions)
    assert driver.state("count", "count") == expected
    assert driver.changelog_state("count", "count") == expected
    counts = outputs_by_key(driver)
    finals = {str(auction).encode(): values[-1] for auction, values in counts.items()}
    assert finals == expected
    for values in counts.values():
        if emit == "each":
            assert values == list(range(1, values[-1] + 1))
        else:
            assert values == sorted(set(values))
