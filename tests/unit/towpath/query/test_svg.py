"""Plans as pictures: everything is in them, nothing lies on anything else, arrows lead to the right."""

from __future__ import annotations

from itertools import combinations, pairwise
from xml.etree import ElementTree

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queries import key_count, q4, q5, q8
from towpath.query import Query, render_svg, tumbling
from towpath.query.layers import Bend, layers_of, ordered

SVG = "{http://www.w3.org/2000/svg}"


def late():
    query = Query("app", description="a <b> & c")
    rows = query.source("in", schema={"k": pl.Int64, "t": pl.Int64}, event_time="t")
    rows.key_by("k").stage("count").window(tumbling(10), on="t").late_to("late").count().sink("out")
    return query


def joined():
    query = Query("app")
    rows = query.source("in", schema={"k": pl.Int64, "t": pl.Int64})
    table = rows.key_by("k").stage("newest").latest(by="t").key_by("k")
    rows.key_by("k").stage("join").enrich(table, columns={"newest": "t"}).sink("out")
    return query


BUILT = [key_count.build(), q4.build(), q5.build(), q8.build(), late(), joined()]


def boxes(root):
    return [{name: float(box.get(name)) for name in ("x", "y", "width", "height")} for box in root.iter(f"{SVG}rect")]


def overlap(one, other):
    return all(
        one[at] < other[at] + other[size] and other[at] < one[at] + one[size]
        for at, size in (("x", "width"), ("y", "height"))
    )


@pytest.mark.parametrize("query", BUILT, ids=lambda query: query.app)
def test_everything_is_in_the_picture_and_nothing_lies_on_anything_else(query):
    plan = query.plan()
    root = ElementTree.fromstring(render_svg(plan))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    for stage in plan.stages:
        assert f"{stage.name} ×{stage.parallelism}" in texts
    inner = {source.topic for stage in plan.stages for source in stage.inputs}
    outer = {output.topic for stage in plan.stages for output in stage.outputs if not output.inner}
    assert outer <= set(texts)
    assert {source.topic for source in plan.stages[0].inputs} <= set(texts)
    arrows = len(list(root.iter(f"{SVG}path"))) - 1  # one is the tip
    written = [output.topic for stage in plan.stages for output in stage.outputs]
    reads = sum(len(stage.inputs) for stage in plan.stages)
    assert arrows == reads + sum(topic not in inner for topic in written)
    found = boxes(root)
    assert not any(overlap(one, other) for one, other in combinations(found, 2))
    width, height = float(root.get("width")), float(root.get("height"))
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= width for box in found)
    assert all(box["y"] >= 0 and box["y"] + box["height"] <= height for box in found)


def test_what_only_a_step_sends_is_dashed():
    root = ElementTree.fromstring(render_svg(late().plan()))
    kinds = [path.get("class") for path in root.iter(f"{SVG}path")]
    assert kinds.count("edge side") == 1


graphs = st.integers(1, 7).flatmap(
    lambda size: st.tuples(
        st.just(list(range(size))),
        st.lists(
            st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)).filter(lambda pair: pair[0] < pair[1]),
            unique=True,
        ) if size > 1 else st.just([]),
    )
)  # fmt: skip


@settings(deadline=None)
@given(graphs)
def test_arrows_lead_from_layer_to_layer(graph):
    nodes, arrows = graph
    layer = layers_of(nodes, arrows)
    rows, ways = ordered(nodes, arrows)
    where = {spot: number for number, row in enumerate(rows) for spot in row}
    assert {node: where[node] for node in nodes} == layer
    assert len(where) == sum(map(len, rows))
    for (begin, end), way in zip(arrows, ways, strict=True):
        assert (way[0], way[-1]) == (begin, end)
        assert all(isinstance(spot, Bend) for spot in way[1:-1])
        assert all(where[right] == where[left] + 1 for left, right in pairwise(way))


def test_an_arrow_that_passes_a_layer_leads_past_its_boxes():
    root = ElementTree.fromstring(render_svg(joined().plan()))
    passing = [path.get("d") for path in root.iter(f"{SVG}path") if "L" in path.get("d", "") and path.get("class")]
    (way,) = passing
    points = [tuple(map(float, point.split(","))) for point in way.replace("L", "C").split("C")[2].split()[:1]]
    ((x, y),) = points
    newest = boxes(root)[2]
    assert x == pytest.approx(newest["x"] + newest["width"], abs=0.2)
    assert not newest["y"] <= y <= newest["y"] + newest["height"]
