"""Plans the stages: which columns are decoded and sent, which topics connect them, which state they keep."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from statemgr.state import TableSpec
from towpath.query.check import Schema, resulting_schema, visible
from towpath.query.errors import QueryError
from towpath.query.graph import Cut, Graph, Sink, Source
from towpath.query.plan import Edge, Format, InputPlan, OperatorPlan, OutputPlan, QueryPlan, StagePlan
from towpath.query.sections import Exit, Section, cut_graph, output_topic
from towpath.query.steps import CountStep, KeepStep, Step


def plan_graph(graph: Graph, app: str, description: str = "") -> QueryPlan:
    """Plan the stages.

    Raises:
        GraphError: stages, edges and sinks do not form a query; see :func:`towpath.query.sections.cut_graph`.
    """
    sections = cut_graph(graph, app)
    needed = _needed_columns(sections)
    if not _gives_the_same(sections, needed):
        needed = {section.name: set(visible(section.head.schema)) for section in sections}
    stages = (_stage(section, needed, _combiner(section, sections), app) for section in sections)
    return QueryPlan(app, tuple(stages), description)


def _needed_columns(sections: list[Section]) -> dict[str, set[str]]:
    """Stage → columns that it needs of its input."""
    needed: dict[str, set[str]] = {}
    for section in reversed(sections):
        columns = _sent(section, needed)
        for index in reversed(range(len(section.steps))):
            before = section.steps[index - 1].schema if index else section.head.schema
            columns = section.steps[index].step.needs(columns, before)
        # A frame without columns would lose its height.
        needed[section.name] = columns or {visible(section.head.schema)[0]}
    return needed


def _sent(section: Section, needed: Mapping[str, set[str]]) -> set[str]:
    """Columns that some exit of the stage needs."""
    columns: set[str] = set()
    for exit_ in section.exits:
        if isinstance(exit_, Sink):
            columns |= set(visible(exit_.schema))
        else:
            columns |= needed[exit_.options.name] | set(exit_.keys)
    return columns


def _steps(section: Section, needed: Mapping[str, set[str]]) -> list[Step]:
    """The stage's steps, and one more that drops what nobody needs."""
    steps = [apply.step for apply in section.steps]
    sent = _sent(section, needed)
    arriving = set(visible(section.schema)) if section.steps else needed[section.name]
    if sent < arriving:
        steps.append(KeepStep(tuple(name for name in visible(section.schema) if name in sent)))
    return steps


def _combiner(section: Section, sections: list[Section]) -> OperatorPlan | None:
    """What merges rows at the stage's end, where they go by their key to a step that knows of merged ones."""
    match section.exits:
        case (Cut(edge=Edge.HASH) as cut,):
            (behind,) = (each for each in sections if each.head is cut)
            first = behind.steps[0].step if behind.steps else None
            return first.combiner() if isinstance(first, CountStep) and first.keys == cut.keys else None
        case _:
            return None


def _gives_the_same(sections: list[Section], needed: Mapping[str, set[str]]) -> bool:
    """Whether every sink gets the same columns when only the needed ones are read."""
    try:
        return all(_pruned_schema(section, needed) == _sent_schema(section, needed) for section in sections)
    except QueryError:
        return False


def _pruned_schema(section: Section, needed: Mapping[str, set[str]]) -> dict[str, Any]:
    schema = _only(section.head.schema, needed[section.name])
    for step in _steps(section, needed):
        schema = resulting_schema(step.make(), schema, step.name)
    return {name: schema[name] for name in visible(schema)}


def _sent_schema(section: Section, needed: Mapping[str, set[str]]) -> dict[str, Any]:
    sent = _only(section.schema, _sent(section, needed))
    return {name: sent[name] for name in visible(sent)}


def _only(schema: Schema, columns: Collection[str]) -> dict[str, Any]:
    mine = set(visible(schema))
    return {name: dtype for name, dtype in schema.items() if name in columns or name not in mine}


def _stage(section: Section, needed: Mapping[str, set[str]], combiner: OperatorPlan | None, app: str) -> StagePlan:
    head = section.head
    operators = [OperatorPlan(step.name, step.make) for step in _steps(section, needed)]
    if combiner is not None:
        operators.append(combiner)
    uses = [table for apply in section.steps for table in apply.step.tables]
    return StagePlan(
        app=app,
        name=section.name,
        inputs=(_input(section, needed, app),),
        operators=tuple(operators),
        outputs=tuple(_output(exit_, app) for exit_ in section.exits),
        tables=tuple(TableSpec(use.name, number, use.codec) for number, use in enumerate(uses)),
        parallelism=head.options.parallelism,
        backend=head.options.backend,
    )


def _input(section: Section, needed: Mapping[str, set[str]], app: str) -> InputPlan:
    head = section.head
    columns = [name for name in visible(head.schema) if name in needed[section.name]]
    schema = {name: head.schema[name] for name in columns}
    if isinstance(head, Source):
        key_column = head.key_column if head.key_column in schema else None
        fields = {name: dtype for name, dtype in schema.items() if name != key_column}
        return InputPlan(head.topic, Format.JSON, fields, None, head.emit_time, key_column)
    return InputPlan(output_topic(head, app), Format.ARROW, schema, head.partitions)


def _output(exit_: Exit, app: str) -> OutputPlan:
    topic = output_topic(exit_, app)
    if isinstance(exit_, Cut):
        return OutputPlan(topic, Format.ARROW, exit_.edge, exit_.keys, exit_.partitions)
    edge = Edge.HASH if exit_.keys else Edge.RANDOM
    return OutputPlan(topic, Format.JSON, edge, exit_.keys, exit_.partitions, inner=False)
