"""Plans the stages: which columns are decoded and sent, which topics connect them, which state they keep."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from statemgr.state import TableSpec
from towpath.query.check import Schema, resulting_schema, visible
from towpath.query.errors import QueryError
from towpath.query.expiring import ExpiringRowsStep
from towpath.query.formats import format_of
from towpath.query.graph import Apply, Cut, Graph, Head, Sink, Source, sources_of
from towpath.query.keyed_steps import CountStep
from towpath.query.plan import Edge, Format, InputPlan, OperatorPlan, OutputPlan, QueryPlan, StagePlan
from towpath.query.sections import Exit, Section, Way, cut_graph, input_topics, output_topic
from towpath.query.steps import KeepStep, Step
from towpath.query.timed_process import TimedProcessStep
from towpath.query.windowed_steps import RequireEventTimeStep


def plan_graph(graph: Graph, app: str, description: str = "") -> QueryPlan:
    """Plan the stages.

    Raises:
        GraphError: stages, edges and sinks do not form a query; see :func:`towpath.query.sections.cut_graph`.
    """
    sections = cut_graph(graph, app)
    timed = any(isinstance(apply.step, _TIMED) for section in sections for apply in section.steps)
    needed = _needed_columns(sections, timed=timed)
    if not _gives_the_same(sections, needed):
        needed = {section.name: set(visible(section.head.schema)) for section in sections}
    stages = (
        _stage(section, needed, _combiner(section, sections), app, timed=timed and _tells_time(section.head))
        for section in sections
    )
    return QueryPlan(app, tuple(stages), description)


_TIMED = (RequireEventTimeStep, ExpiringRowsStep, TimedProcessStep)
"""Steps that have to know how far event time has come."""


def _tells_time(head: Head) -> bool:
    """Whether all sources of a stage tell event time."""
    return all(source.event_time is not None for source in sources_of(head))


def _needed_columns(sections: list[Section], *, timed: bool) -> dict[str, set[str]]:
    """Stage → columns that it needs of its input; ``timed``: sources need event time."""
    needed: dict[str, set[str]] = {}
    for section in reversed(sections):
        columns = _back(section.steps, _passed(section, needed), section.head.schema)
        if timed and isinstance(section.head, Source) and section.head.event_time is not None:
            columns |= {section.head.event_time.column}
        # A frame without columns would lose its height.
        needed[section.name] = columns or {visible(section.head.schema)[0]}
    return needed


def _back(steps: Sequence[Apply], wanted: Collection[str], schema: Schema) -> set[str]:
    """Columns that steps need so that the wanted ones come out; ``schema`` is what they begin with."""
    columns = set(wanted)
    for index in reversed(range(len(steps))):
        columns = steps[index].step.needs(columns, steps[index - 1].schema if index else schema)
    return columns


def _wanted(exit_: Exit, needed: Mapping[str, set[str]]) -> set[str]:
    """Columns that an edge or sink takes."""
    if isinstance(exit_, Sink):
        return set(visible(exit_.schema))
    return needed[exit_.options.name] | set(exit_.keys)


def _passed(section: Section, needed: Mapping[str, set[str]]) -> set[str]:
    """Columns that some way on from the stage's steps needs."""
    passed: set[str] = set()
    for way in section.ways:
        passed |= _back(way.steps, _wanted(way.exit, needed), section.schema)
    return passed


def _steps(section: Section, needed: Mapping[str, set[str]]) -> list[Step]:
    """The steps of all rows, and one more that drops what nobody needs."""
    arriving = set(visible(section.schema)) if section.steps else needed[section.name]
    return _kept([apply.step for apply in section.steps], section.schema, arriving, _passed(section, needed))


def _way_steps(section: Section, way: Way, needed: Mapping[str, set[str]]) -> list[Step]:
    """The same of a way."""
    schema = way.steps[-1].schema if way.steps else section.schema
    arriving = set(visible(schema)) if way.steps else _passed(section, needed)
    return _kept([apply.step for apply in way.steps], schema, arriving, _wanted(way.exit, needed))


def _kept(steps: list[Step], schema: Schema, arriving: Collection[str], wanted: set[str]) -> list[Step]:
    if wanted < set(arriving):
        steps.append(KeepStep(tuple(name for name in visible(schema) if name in wanted)))
    return steps


def _combiner(section: Section, sections: list[Section]) -> OperatorPlan | None:
    """What merges rows at the stage's end, where they go by their key to a step that knows of merged ones."""
    match section.ways:
        case (Way(exit=Cut(edge=Edge.HASH) as cut),):
            (behind,) = (each for each in sections if each.head is cut)
            first = behind.steps[0].step if behind.steps else None
            return first.combiner() if isinstance(first, CountStep) and first.keys == cut.keys else None
        case _:
            return None


def _gives_the_same(sections: list[Section], needed: Mapping[str, set[str]]) -> bool:
    """Whether every edge and sink gets the same columns when only the needed ones are read."""
    try:
        return all(
            _pruned_schema(section, way, needed) == _sent_schema(section, way, needed)
            for section in sections
            for way in section.ways
        )
    except QueryError:
        return False


def _pruned_schema(section: Section, way: Way, needed: Mapping[str, set[str]]) -> dict[str, Any]:
    schema = _only(section.head.schema, needed[section.name])
    for step in (*_steps(section, needed), *_way_steps(section, way, needed)):
        schema = resulting_schema(step.make(), schema, step.name)
    return {name: schema[name] for name in visible(schema)}


def _sent_schema(section: Section, way: Way, needed: Mapping[str, set[str]]) -> dict[str, Any]:
    sent = _only(way.steps[-1].schema if way.steps else section.schema, _wanted(way.exit, needed))
    return {name: sent[name] for name in visible(sent)}


def _only(schema: Schema, columns: Collection[str]) -> dict[str, Any]:
    mine = set(visible(schema))
    return {name: dtype for name, dtype in schema.items() if name in columns or name not in mine}


def _stage(
    section: Section, needed: Mapping[str, set[str]], combiner: OperatorPlan | None, app: str, *, timed: bool
) -> StagePlan:
    head = section.head
    operators = _operators(_steps(section, needed))
    if combiner is not None:
        operators.append(combiner)
    uses = [table for apply in section.steps for table in apply.step.tables]
    return StagePlan(
        app=app,
        name=section.name,
        inputs=_inputs(section, needed, app, timed=timed),
        operators=tuple(operators),
        outputs=(
            *(_output(section, exit_, needed, app) for exit_ in section.exits),
            *(side.plan() for side in section.side_outputs),
        ),
        tables=tuple(TableSpec(use.name, number, use.codec, use.chunks) for number, use in enumerate(uses)),
        parallelism=head.options.parallelism,
        backend=head.options.backend,
        event_time=timed,
    )


def _operators(steps: Iterable[Step]) -> list[OperatorPlan]:
    return [OperatorPlan(step.name, step.make) for step in steps]


def _inputs(section: Section, needed: Mapping[str, set[str]], app: str, *, timed: bool) -> tuple[InputPlan, ...]:
    head = section.head
    columns = [name for name in visible(head.schema) if name in needed[section.name]]
    schema = {name: head.schema[name] for name in columns}
    if isinstance(head, Source):
        key_column = head.key_column if head.key_column in schema else None
        stamp = head.timestamp_column if head.timestamp_column in schema else None
        fields = {name: dtype for name, dtype in schema.items() if name not in (key_column, stamp)}
        event_time = head.event_time if timed else None
        form, said = format_of(head.declared), head.declared
        return (InputPlan(head.topic, form, fields, None, head.emit_time, key_column, stamp, event_time, said),)
    return tuple(InputPlan(topic, Format.ARROW, schema, head.partitions) for topic in input_topics(head, app))


def _output(section: Section, exit_: Exit, needed: Mapping[str, set[str]], app: str) -> OutputPlan:
    topic = output_topic(exit_, section.name, app)
    ways = tuple(tuple(_operators(_way_steps(section, way, needed))) for way in section.ways_to(exit_))
    if isinstance(exit_, Cut):
        return OutputPlan(topic, Format.ARROW, exit_.edge, exit_.keys, exit_.partitions, ways=ways)
    edge = Edge.HASH if exit_.keys else Edge.RANDOM
    return OutputPlan(
        topic,
        format_of(exit_.declared),
        edge,
        exit_.keys,
        exit_.partitions,
        inner=False,
        ways=ways,
        declared=exit_.declared,
        fields=exit_.fields,
    )
