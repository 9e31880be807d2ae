"""From agents to stages: each agent is a stage; a ``group_by`` puts one before it that keys the values anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from statemgr.layout import edge_topic
from statemgr.state import TableSpec
from towpath.faust.agents import Agent
from towpath.faust.errors import FaustProgramError, UnsupportedFaustFeatureError
from towpath.faust.operator import AgentOperator, GroupOperator
from towpath.faust.probe import probe
from towpath.faust.references import references
from towpath.faust.runtime import Runtime
from towpath.faust.serializers import Serde, key_to_bytes
from towpath.faust.streams import Grouping
from towpath.faust.tables import Table
from towpath.faust.topics import Topic
from towpath.query.names import check_stage
from towpath.query.plan import (
    BYTES_SCHEMA,
    KEY_COLUMN,
    Edge,
    Format,
    InputPlan,
    Operator,
    OperatorPlan,
    OutputPlan,
    QueryPlan,
    StagePlan,
)


@dataclass(frozen=True)
class AppOptions:
    """What of an application's settings the plan needs."""

    name: str
    partitions: int
    backend: str
    timeout_s: float


@dataclass(frozen=True)
class AgentUse:
    """An agent and what it touches."""

    agent: Agent
    grouping: Grouping | None
    topics: tuple[Topic, ...]
    tables: tuple[Table, ...]


def plan_app(options: AppOptions, agents: Sequence[Agent], runtime: Runtime) -> QueryPlan:
    """The stage graph of an application.

    Raises:
        FaustProgramError: no agents, an agent that can't be examined, or the like.
        UnsupportedFaustFeatureError: two agents share a table.
    """
    if not agents:
        raise FaustProgramError(f"application {options.name!r} has no agents: write one with @app.agent(topic)")
    uses = [_use(agent) for agent in agents]
    _check_tables(uses)
    stages = [stage for use in _in_order(uses) for stage in _stages(use, options, runtime)]
    return QueryPlan(options.name, tuple(stages))


def _use(agent: Agent) -> AgentUse:
    check_stage(agent.name)
    functions = [agent.function, *(sink for sink in agent.sinks if not isinstance(sink, Topic | Agent))]
    reached = [topic for function in functions for topic in references(function, Topic)]
    reached += [other.topic for function in functions for other in references(function, Agent)]
    reached += [
        sink if isinstance(sink, Topic) else sink.topic for sink in agent.sinks if isinstance(sink, Topic | Agent)
    ]
    tables = [table for function in functions for table in references(function, Table)]
    return AgentUse(agent, probe(agent), tuple(dict.fromkeys(reached)), tuple(dict.fromkeys(tables)))


def _check_tables(uses: Sequence[AgentUse]) -> None:
    owners: dict[str, str] = {}
    for use in uses:
        for table in use.tables:
            owner = owners.setdefault(table.name, use.agent.name)
            if owner != use.agent.name:
                raise UnsupportedFaustFeatureError(
                    f"table {table.name!r} in two agents ({owner!r} and {use.agent.name!r})",
                    "let one agent own it, and send it what the other one knows",
                )


def _in_order(uses: Sequence[AgentUse]) -> list[AgentUse]:
    """Agents that write before those that read, as far as there is no circle."""
    readers = {use.agent.topic.name: use for use in uses}
    ordered: list[AgentUse] = []
    seen: set[str] = set()

    def visit(use: AgentUse) -> None:
        if use.agent.name in seen:
            return
        seen.add(use.agent.name)
        for topic in use.topics:
            if topic.name in readers:
                visit(readers[topic.name])
        ordered.append(use)

    for use in reversed(uses):
        visit(use)
    return ordered[::-1]


def _stages(use: AgentUse, options: AppOptions, runtime: Runtime) -> list[StagePlan]:
    agent = use.agent
    source = InputPlan(agent.topic.name, Format.BYTES, BYTES_SCHEMA, _partitions(agent, options))
    if use.grouping is None:
        return [_agent_stage(use, source, agent.topic.key, options, runtime)]
    name = f"{agent.name}-by-{use.grouping.name}"
    check_stage(name)
    topic = edge_topic(options.name, name, agent.name)
    partitions = use.grouping.partitions or options.partitions
    grouping = StagePlan(
        app=options.name,
        name=name,
        inputs=(source,),
        operators=(OperatorPlan(f"group_by({use.grouping.name})", partial(_group_operator, agent, use.grouping)),),
        outputs=(OutputPlan(topic, Format.ARROW, Edge.HASH, (KEY_COLUMN,), partitions),),
        backend=options.backend,
    )
    grouped = InputPlan(topic, Format.ARROW, BYTES_SCHEMA, partitions)
    return [grouping, _agent_stage(use, grouped, Serde(str, "raw"), options, runtime)]


def _agent_stage(use: AgentUse, source: InputPlan, key: Serde, options: AppOptions, runtime: Runtime) -> StagePlan:
    agent = use.agent
    topics = frozenset(topic.name for topic in use.topics)
    tables = frozenset(table.name for table in use.tables)
    make: Callable[[], Operator] = partial(AgentOperator, agent, key, topics, tables, runtime, options.timeout_s)
    return StagePlan(
        app=options.name,
        name=agent.name,
        inputs=(source,),
        operators=(OperatorPlan(agent.name, make),),
        outputs=tuple(_output(topic, options) for topic in use.topics),
        tables=tuple(TableSpec(table.name, number, table.codec) for number, table in enumerate(use.tables)),
        backend=options.backend,
    )


def _output(topic: Topic, options: AppOptions) -> OutputPlan:
    partitions = topic.partitions or options.partitions
    return OutputPlan(topic.name, Format.BYTES, Edge.HASH, (KEY_COLUMN,), partitions, inner=False, default=False)


def _partitions(agent: Agent, options: AppOptions) -> int | None:
    """Partition count of an agent's topic where Towpath makes it; a topic of others must exist."""
    return agent.topic.partitions or (options.partitions if agent.own_topic else None)


def _group_operator(agent: Agent, grouping: Grouping) -> Operator:
    return GroupOperator(agent.name, agent.topic.value, grouping.key, key_to_bytes)
