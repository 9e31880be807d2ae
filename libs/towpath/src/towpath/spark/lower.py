"""A query's graph → Spark frames, one for each sink; step by step, each by the module of its kind."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

from towpath.operators.enriched import Enriched
from towpath.operators.pairs import Pairs
from towpath.operators.ranked import Ranked
from towpath.query.graph import Apply, Cut, Graph, Node, Sink, Source, head_of
from towpath.query.keyed_steps import CountStep, KeyedRowsStep, ProcessStep
from towpath.query.steps import SideStep
from towpath.query.windowed_steps import AssignWindowsStep, SessionsStep, WindowedRowsStep
from towpath.spark.frames import columns, present, shaped
from towpath.spark.joined_steps import enriched, joined, joined_stream
from towpath.spark.judge import Mode
from towpath.spark.keyed_steps import counted, first_rows, placed, processed, reduced
from towpath.spark.row_steps import row_step
from towpath.spark.windowed_steps import assigned, in_windows, session_stream, sessions, windowed, windowed_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def lower(graph: Graph, sources: Mapping[Source, DataFrame], mode: Mode) -> dict[Sink, DataFrame]:
    """The rows of each sink.

    Args:
        graph: of a query that can run in this mode; see :func:`towpath.spark.judge.require`.
        sources: the rows of each source, as :func:`towpath.spark.sources.decoded` gives them.
        mode: batch, or streaming where sources stream.
    """
    lowering = _Lowering(sources, mode)
    return {sink: lowering.frame(sink.parent) for sink in graph.sinks}


class _Lowering:
    """Frames of nodes, each made once."""

    def __init__(self, sources: Mapping[Source, DataFrame], mode: Mode) -> None:
        self._sources = sources
        self._streams = mode is Mode.STREAMING
        self._frames: dict[int, DataFrame] = {}

    def frame(self, node: Node) -> DataFrame:
        """The rows of a node."""
        if id(node) not in self._frames:
            self._frames[id(node)] = self._lowered(node)
        return self._frames[id(node)]

    def _lowered(self, node: Node) -> DataFrame:
        match node:
            case Source():
                return self._sources[node]
            case Cut():
                return _union([self.frame(parent) for parent in node.parents])
            case Apply(step=SideStep() as side):
                return row_step(self.frame(node.parent), side, node.schema)
            case Apply():
                return shaped(self._applied(node), node.schema)

    def _applied(self, node: Apply) -> DataFrame:
        match node.step:
            case CountStep() as step:
                return counted(self.frame(node.parent), step)
            case KeyedRowsStep(reduction=Enriched() as reduction) as step:
                return self._enriched(node.parent, step, reduction)
            case KeyedRowsStep(reduction=Ranked() as reduction) as step if self._streams:
                rows = self.frame(node.parent).groupBy(*columns(step.keys))
                return placed(rows.agg(first_rows(reduction, node.parent.schema)), reduction.rank)
            case KeyedRowsStep() as step:
                return reduced(self.frame(node.parent), step.keys, step.reduction, node.schema)
            case AssignWindowsStep() as step:
                # On streams windows are assigned by the operator that keeps them, which knows the watermark.
                frame = self.frame(node.parent)
                return frame if self._streams else assigned(frame, step)
            case WindowedRowsStep(reduction=Pairs() as pairs) as step:
                return self._window_pairs(node, step, pairs)
            case WindowedRowsStep() as step:
                frame = self.frame(node.parent)
                if self._streams:
                    return windowed_stream(frame, step, _windows(node).on, node.parent.schema)
                return windowed(frame, step, node.schema)
            case SessionsStep() as step:
                frame = self.frame(node.parent)
                return session_stream(frame, step) if self._streams else sessions(frame, step)
            case ProcessStep() as step:
                return processed(self.frame(node.parent), step)
            case step:
                return row_step(self.frame(node.parent), step, node.schema)

    def _enriched(self, cut: Node, step: KeyedRowsStep, reduction: Enriched) -> DataFrame:
        rows, table = self._sides(cut)
        return enriched(rows, table, step.keys, reduction)

    def _window_pairs(self, node: Apply, step: WindowedRowsStep, pairs: Pairs) -> DataFrame:
        """Rows of both sides get their windows behind the cut, which is here done for either side by itself."""
        window = _windows(node)
        assign, join = (in_windows, joined_stream) if self._streams else (assigned, joined)
        left, right = (assign(present(side, [window.on]), window) for side in self._sides(head_of(node)))
        return join(left, right, step, pairs)

    def _sides(self, cut: Node) -> tuple[DataFrame, DataFrame]:
        """The sides that come together in a cut, told apart by the steps before it."""
        sides: dict[bool, list[DataFrame]] = {False: [], True: []}
        for parent in cut.parents if isinstance(cut, Cut) else ():
            if isinstance(parent, Apply) and isinstance(parent.step, SideStep):
                sides[parent.step.of_right].append(self.frame(parent))
        return _union(sides[False]), _union(sides[True])


def _union(frames: list[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def _windows(node: Apply) -> AssignWindowsStep:
    """The windows of the rows that come to a node."""
    if isinstance(node.parent, Apply) and isinstance(node.parent.step, AssignWindowsStep):
        return node.parent.step
    raise TypeError(f"{node.step.name} has no windows before it")
