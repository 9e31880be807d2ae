"""Long lists that are moved while rows come: none of their rows is lost, doubled or out of order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from statemgr.control.records import Manner, Strategy
from statemgr.lists import CHUNK_ROWS
from statemgr.state import TableSpec, head_codec, json_codec
from tests.cases.feeds import END_MS, LAG_MS, Feed, grow_and_shrink, lose_a_newcomer
from tests.unit.towpath.stage.cluster import STAGE, TASKS, Cluster
from tests.unit.towpath.stage.plans import APP, SINK, SOURCE
from towpath.operators.enriched import Enriched
from towpath.operators.expiring_lists import ExpiringLists
from towpath.operators.expiry import Expiry
from towpath.operators.growing_rows import GrowingRows
from towpath.operators.interval_join import IntervalJoin, IntervalPairs
from towpath.operators.pairs import RIGHT, TIME, WindowPairs
from towpath.operators.rows import WithColumns
from towpath.operators.windowed_rows import WindowedRows
from towpath.operators.windows import AssignWindows, Window
from towpath.query.plan import Edge, EventTime, Format, InputPlan, OperatorFactory, OperatorPlan, OutputPlan, StagePlan
from towpath.testing.views import changelog_state, table_of

KEYS = 9
UNKNOWN = {4, 8}
"""Auctions of which the table never has a row."""

WITHIN_MS = 300
WINDOW = Window(500, 500)
STRATEGIES = [Strategy.RESTART, Strategy.REPLAY, Strategy.BLOCK, Strategy.PRECOPY, Strategy.LAZY, Strategy.HYBRID]

SCHEMA = {"auction": pl.Int64, "t": pl.Int64, "n": pl.Int64, "right": pl.Boolean}
SIDES = [
    pl.col("right").alias(RIGHT),
    pl.col("t").alias(TIME),
    pl.col("n").alias("l"),
    pl.col("n").alias("right.r"),
]


def stage(name: str, *operators: OperatorFactory) -> StagePlan:
    """One stage, straight from the source, whose last operator keeps lists."""
    return StagePlan(
        app=APP,
        name=STAGE,
        inputs=(InputPlan(SOURCE, Format.JSON, SCHEMA, TASKS, event_time=EventTime("t", LAG_MS, 5.0)),),
        operators=tuple(OperatorPlan(f"{name}-{number}", make) for number, make in enumerate(operators)),
        outputs=(OutputPlan(SINK, Format.JSON, Edge.HASH, ("auction",), TASKS, inner=False),),
        tables=(TableSpec(name, 0, head_codec(list[Any], int), json_codec(list[list[Any]])),),
        event_time=True,
    )


def enriching() -> StagePlan:
    """Bids with the number of their auction's row."""
    growing = Enriched(pl.col("right"), ["n"], {"fact": "n"})
    return stage("enrich", lambda: GrowingRows(["auction"], growing, "enrich"))


def expiring() -> StagePlan:
    """The same, with a time to live that never ends here."""
    growing = Enriched(pl.col("right"), ["n"], {"fact": "n"})
    return stage("enrich", lambda: ExpiringLists(["auction"], growing, "enrich", Expiry(10 * END_MS, "t")))


def joining() -> StagePlan:
    """Bids with those of the other side up to 300 ms later."""
    pairs = IntervalPairs(["l"], {"r": "right.r"}, 0, WITHIN_MS)
    return stage("join", lambda: WithColumns(SIDES), lambda: IntervalJoin(["auction"], pairs, "join"))


def joining_in_windows() -> StagePlan:
    """Bids with those of the other side in the same window, and those without one."""
    pairs = WindowPairs(["l"], {"r": "right.r"}, "left")
    kept = {RIGHT: pl.Boolean(), "l": pl.Int64(), "right.r": pl.Int64()}
    return stage(
        "join",
        lambda: WithColumns(SIDES),
        lambda: AssignWindows(WINDOW, TIME),
        lambda: WindowedRows({"auction": pl.Int64()}, WINDOW, pairs, kept, "join"),
    )


def fact_or_bid(number: int, time_ms: int) -> dict[str, Any]:
    """Now and then a row of the table, for most auctions late."""
    auction = number * 7 % KEYS
    return {"auction": auction, "t": time_ms, "n": number, "right": auction not in UNKNOWN and number % 110 == auction}


def one_of_two(number: int, time_ms: int) -> dict[str, Any]:
    return {"auction": number * 7 % KEYS, "t": time_ms, "n": number, "right": number % 5 == 0}


def finish(cluster: Cluster) -> None:
    """Let all state come, and event time to the end."""
    cluster.hurry()
    cluster.settle()
    for number in range(TASKS):
        cluster.write([{"auction": KEYS * TASKS + number, "t": END_MS, "n": -1, "right": False}])
    cluster.rest()
    for _ in range(50):
        cluster.step()


def require_enriched(cluster: Cluster) -> None:
    """Every row of an auction that has a row of the table has come out, in order; all others wait, in order."""
    bids: dict[int, list[int]] = {}
    facts: dict[int, set[int]] = {}
    for row in cluster.sent:
        if row["right"]:
            facts.setdefault(row["auction"], set()).add(row["n"])
        else:
            bids.setdefault(row["auction"], []).append(row["n"])
    out: dict[int, list[int]] = {}
    for record in cluster.output():
        out.setdefault(record.value["auction"], []).append(record.value["n"])
        assert record.value["fact"] in facts[record.value["auction"]]
    assert out == {auction: rows for auction, rows in bids.items() if auction in facts}
    kept = {int(key): [row[1] for row in value.rows] for key, value in cluster.state().items()}
    newest = {auction: [max(numbers)] for auction, numbers in facts.items()}
    assert kept == {**newest, **{auction: rows for auction, rows in bids.items() if auction not in facts}}
    assert max(map(len, kept.values())) > 5 * CHUNK_ROWS
    assert changelog_state(cluster.kafka, cluster.plan, table_of(cluster.plan, "enrich")) == cluster.state()


def require_pairs(cluster: Cluster) -> None:
    """All pairs, each once; and nothing is kept of rows whose time is over."""
    wanted = sorted(
        (left["n"], right["n"])
        for left in cluster.sent
        if not left["right"]
        for right in cluster.sent
        if right["right"] and right["auction"] == left["auction"] and 0 <= right["t"] - left["t"] <= WITHIN_MS
    )
    assert sorted((record.value["l"], record.value["r"]) for record in cluster.output()) == wanted
    assert cluster.state().keys() == {str(KEYS * TASKS + number).encode() for number in range(TASKS)}
    assert changelog_state(cluster.kafka, cluster.plan, table_of(cluster.plan, "join")) == cluster.state()


def require_pairs_of_windows(cluster: Cluster) -> None:
    """All pairs of the windows that are over, each once; the state has the rows of those that are open alone."""
    rows: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in cluster.sent:
        end = (row["t"] // WINDOW.size_ms + 1) * WINDOW.size_ms
        rows.setdefault((row["auction"], end), []).append(row)
    assert max(map(len, rows.values())) > 2 * CHUNK_ROWS
    wanted = []
    for each in (each for (_, end), each in rows.items() if end <= END_MS):
        partners = [row["n"] for row in each if row["right"]] or [None]
        wanted += [(row["n"], partner) for row in each if not row["right"] for partner in partners]
    assert sorted((record.value["l"], record.value["r"]) for record in cluster.output()) == sorted(wanted)
    kept = {key: len(value.rows) for key, value in cluster.state().items()}
    end = END_MS + WINDOW.size_ms
    assert kept == {f"[{KEYS * TASKS + number},{end}]".encode(): 1 for number in range(TASKS)}
    assert changelog_state(cluster.kafka, cluster.plan, table_of(cluster.plan, "join")) == cluster.state()


JOINS = [
    pytest.param(joining(), require_pairs, id="join"),
    pytest.param(joining_in_windows(), require_pairs_of_windows, id="windows"),
]


def moved(plan: StagePlan, strategy: Strategy, row: Any, state_dir: Path | None = None) -> Cluster:
    """A cluster that has grown and shrunk; small chunks, so that lists arrive in parts."""
    cluster = Cluster(Manner(strategy=strategy, bins=4), plan=plan, state_dir=state_dir, chunk_bytes=300)
    grow_and_shrink(cluster, row=row)
    finish(cluster)
    return cluster


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_rows_that_wait_come_out_once_and_in_order(strategy: Strategy) -> None:
    cluster = moved(enriching(), strategy, fact_or_bid)
    require_enriched(cluster)
    cluster.close()


@pytest.mark.parametrize("strategy", [Strategy.REPLAY, Strategy.LAZY, Strategy.HYBRID])
def test_the_same_with_a_time_to_live(strategy: Strategy) -> None:
    cluster = moved(expiring(), strategy, fact_or_bid)
    require_enriched(cluster)
    cluster.close()


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("plan", "require"), JOINS)
def test_pairs_come_out_once_wherever_their_rows_are(plan: StagePlan, require: Any, strategy: Strategy) -> None:
    cluster = moved(plan, strategy, one_of_two)
    require(cluster)
    cluster.close()


@pytest.mark.parametrize(
    ("plan", "row", "require"),
    [
        (enriching(), fact_or_bid, require_enriched),
        (joining(), one_of_two, require_pairs),
        (joining_in_windows(), one_of_two, require_pairs_of_windows),
    ],
    ids=["enrich", "join", "windows"],
)
def test_the_same_on_disk(plan: StagePlan, row: Any, require: Any, tmp_path: Path) -> None:
    cluster = moved(plan, Strategy.HYBRID, row, tmp_path)
    require(cluster)
    cluster.close()


@pytest.mark.parametrize("strategy", [Strategy.LAZY, Strategy.HYBRID])
@pytest.mark.parametrize(
    ("plan", "row", "require"),
    [
        (enriching(), fact_or_bid, require_enriched),
        (joining(), one_of_two, require_pairs),
        (joining_in_windows(), one_of_two, require_pairs_of_windows),
    ],
    ids=["enrich", "join", "windows"],
)
def test_an_owner_that_dies_amid_a_move_takes_no_row_with_it(
    strategy: Strategy, plan: StagePlan, row: Any, require: Any
) -> None:
    cluster = Cluster(Manner(strategy=strategy, bins=4), plan=plan, chunk_bytes=300)
    feed = Feed(cluster, row=row)
    lose_a_newcomer(cluster, feed, 60)
    feed.steps(30)
    finish(cluster)
    require(cluster)
    cluster.close()
