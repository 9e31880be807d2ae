"""A plan for people and tools: text, JSON, Mermaid."""

from __future__ import annotations

from typing import Any

import msgspec

from towpath.query.plan import Edge, Format, InputPlan, OutputPlan, QueryPlan, StagePlan


def describe(plan: QueryPlan) -> dict[str, Any]:
    """The plan as plain values, without code."""
    return {
        "app": plan.app,
        "description": plan.description,
        "stages": [_describe_stage(stage) for stage in plan.stages],
    }


def render_json(plan: QueryPlan) -> str:
    """The plan as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(describe(plan)), indent=2).decode()


def render_text(plan: QueryPlan) -> str:
    """The plan as lines for a terminal: per stage what it reads, does, keeps and writes."""
    title = f"{plan.app}: {plan.description}" if plan.description else plan.app
    return "\n".join([title, *(line for stage in plan.stages for line in _stage_lines(stage))])


def render_mermaid(plan: QueryPlan) -> str:
    """The plan as a Mermaid flow chart: stages as boxes, topics as cylinders."""
    lines = ["flowchart LR"]
    topics: dict[str, str] = {}
    for number, stage in enumerate(plan.stages):
        steps = " → ".join(operator.name for operator in stage.operators) or "pass through"
        lines.append(f'  s{number}["{stage.name} ×{stage.parallelism}<br/>{steps}"]')
    for number, stage in enumerate(plan.stages):
        lines += [f"  {_topic(topics, source.topic, lines)} --> s{number}" for source in stage.inputs]
        lines += [
            f'  s{number} {_arrow(output)}|"{_routing(output)}"| {_topic(topics, output.topic, lines)}'
            for output in stage.outputs
        ]
    return "\n".join(lines)


def _describe_stage(stage: StagePlan) -> dict[str, Any]:
    return {
        "name": stage.name,
        "parallelism": stage.parallelism,
        "backend": stage.backend if stage.stateful else None,
        "inputs": [
            {
                "topic": source.topic,
                "format": source.format.value,
                "columns": {name: str(dtype) for name, dtype in source.schema.items()},
                "partitions": source.partitions,
                "emit_time": source.emit_time,
            }
            for source in stage.inputs
        ],
        "operators": [operator.name for operator in stage.operators],
        "tables": [{"name": table.name, "id": table.id} for table in stage.tables],
        "outputs": [
            {
                "topic": output.topic,
                "format": output.format.value,
                "edge": output.edge.value,
                "key": list(output.key),
                "partitions": output.partitions,
                "inner": output.inner,
                "default": output.default,
                "ways": [[operator.name for operator in way] for way in output.ways],
            }
            for output in stage.outputs
        ],
    }


def _stage_lines(stage: StagePlan) -> list[str]:
    lines = [f"  {stage.name} ×{stage.parallelism}"]
    lines += [f"    reads   {_input(source)}" for source in stage.inputs]
    lines.append(f"    does    {' → '.join(operator.name for operator in stage.operators) or 'pass through'}")
    if stage.stateful:
        lines.append(f"    keeps   {', '.join(table.name for table in stage.tables)} ({stage.backend})")
    return lines + [f"    writes  {_output(output)}{_ways(output)}" for output in stage.outputs]


def _input(source: InputPlan) -> str:
    columns = "" if source.format is Format.BYTES else f": {', '.join(source.schema)}"
    return f"{source.topic} ({source.format.value}){columns}"


def _output(output: OutputPlan) -> str:
    partitions = f", {output.partitions} partitions" if output.partitions else ""
    return f"{output.topic} ({output.format.value}) {_routing(output)}{partitions}"


def _ways(output: OutputPlan) -> str:
    """Which rows come to this output, and what they go through for it alone; empty if all, and nothing."""
    if not output.default:
        return ", only what a step sends there"
    named = [" → ".join(operator.name for operator in way) for way in output.ways]
    return f", after {' and '.join(name or 'all' for name in named)}" if any(named) else ""


def _arrow(output: OutputPlan) -> str:
    return "-->" if output.default else "-.->"


def _routing(output: OutputPlan) -> str:
    return f"{output.edge.value} by {', '.join(output.key)}" if output.edge is Edge.HASH else output.edge.value


def _topic(known: dict[str, str], name: str, lines: list[str]) -> str:
    if name not in known:
        known[name] = f"t{len(known)}"
        lines.append(f'  {known[name]}[("{name}")]')
    return known[name]
