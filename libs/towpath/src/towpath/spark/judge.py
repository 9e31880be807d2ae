"""What of a query runs on Spark, and how: known before there is a session or a broker. Needs no PySpark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from towpath.query.builder import Query
from towpath.query.graph import Apply, Cut, Graph, Node, Sink, Source, head_of
from towpath.query.loading import Plannable
from towpath.query.side_outputs import side_outputs
from towpath.query.steps import SideStep
from towpath.spark.batch_rules import batch
from towpath.spark.checks import check_types
from towpath.spark.errors import NotOnSparkError
from towpath.spark.facts import Facts, Fit, Unfit, merged
from towpath.spark.streaming_rules import streaming


class Mode(StrEnum):
    """How Spark reads a query's input."""

    STREAMING = "streaming"
    """As it comes, by Structured Streaming."""

    BATCH = "batch"
    """All that is there, once."""


@dataclass(frozen=True)
class Finding:
    """How a step runs.

    Attributes:
        stage: name of its stage.
        step: its name, or the topic of a source or sink.
        how: what Spark runs; None: nothing.
        reason: why it can't; None: it can.
    """

    stage: str
    step: str
    how: str | None = None
    reason: str | None = None


def graph_of(query: Plannable) -> Graph:
    """The graph of a query, checked as services check it.

    Raises:
        QueryError: it can't be planned.
        NotOnSparkError: it is written in another way than with :class:`towpath.query.Query`.
    """
    query.plan()
    if not isinstance(query, Query):
        raise NotOnSparkError(
            f"Spark runs queries that are written with towpath.Query; this one is a {type(query).__module__}."
            f"{type(query).__qualname__}"
        )
    return query.graph


def judge(graph: Graph, mode: Mode) -> list[Finding]:
    """Each step of a query in the order written; behind a step that can't run the others are judged as if it could."""
    facts: dict[int, Facts] = {}
    findings: list[Finding] = []
    for node in graph.nodes:
        before = [facts[id(parent)] for parent in _parents(node)]
        stage = head_of(node).options.name
        try:
            fit = _fit(node, before, mode)
        except Unfit as unfit:
            findings.append(Finding(stage, _name(node), reason=str(unfit)))
            fit = Fit("", before[0] if before else Facts())
        else:
            findings += [] if isinstance(node, Cut) else [Finding(stage, _name(node), fit.how)]
        facts[id(node)] = fit.facts
    return findings + [_sink(sink, facts[id(sink.parent)], mode) for sink in graph.sinks]


def output_mode(graph: Graph, sink: Sink) -> str:
    """Spark's output mode of a sink of a query that can stream: ``update`` for running results, else ``append``."""
    facts: dict[int, Facts] = {}
    for node in graph.nodes:
        facts[id(node)] = _fit(node, [facts[id(parent)] for parent in _parents(node)], Mode.STREAMING).facts
    return _output_mode(facts[id(sink.parent)])


def unfit(findings: Iterable[Finding]) -> list[Finding]:
    """The steps that can't run."""
    return [finding for finding in findings if finding.reason is not None]


def require(graph: Graph, mode: Mode, name: str) -> None:
    """Refuse a query that can't run in a mode.

    Args:
        graph: its graph.
        mode: the mode.
        name: what the message calls the query.

    Raises:
        NotOnSparkError: naming step, stage, reason and, where there is one, the way out.
    """
    wrong = unfit(judge(graph, mode))
    if not wrong:
        return
    first, more = wrong[0], len(wrong) - 1
    text = f"{name} can't run on Spark in {mode} mode: {first.step!r} in stage {first.stage!r}: {first.reason}"
    if more:
        text += f" (and {more} more: towpath plan {name} --engine spark)"
    if mode is Mode.STREAMING and not unfit(judge(graph, Mode.BATCH)):
        text += "; run it with --batch"
    raise NotOnSparkError(text)


def _fit(node: Node, before: Sequence[Facts], mode: Mode) -> Fit:
    check_types(node.schema)
    match node:
        case Source():
            _check_format(node)
            return Fit("Kafka source", Facts(time=node.event_time.column if node.event_time else None))
        case Cut():
            return Fit("", before[0] if mode is Mode.BATCH else merged(before))
        case Apply():
            if side_outputs(node.step):
                raise Unfit("it writes late rows to a topic of their own, and Spark drops them without a word")
            if mode is Mode.BATCH:
                return Fit(batch(node.step), before[0])
            return streaming(node.step, before[0], node.parent.schema)


def _check_format(topic: Source | Sink) -> None:
    if topic.declared is not None:
        raise Unfit("its records have schemas in a registry, which this engine does not ask; it reads and writes JSON")


def _sink(sink: Sink, facts: Facts, mode: Mode) -> Finding:
    stage = head_of(sink.parent).options.name
    try:
        _check_format(sink)
    except Unfit as unfit:
        return Finding(stage, sink.topic, reason=str(unfit))
    how = "Kafka sink" if mode is Mode.BATCH else f"Kafka sink, {_output_mode(facts)} mode"
    return Finding(stage, sink.topic, how)


def _output_mode(facts: Facts) -> str:
    return "append" if facts.running is None else "update"


def _parents(node: Node) -> Iterator[Node]:
    match node:
        case Apply():
            yield node.parent
        case Cut():
            yield from node.parents


def _name(node: Node) -> str:
    match node:
        case Source():
            return node.topic
        case Cut():
            sides = (parent.step for parent in node.parents if isinstance(parent, Apply))
            return next((side.joins for side in sides if isinstance(side, SideStep)), "union")
        case Apply():
            return node.step.name
