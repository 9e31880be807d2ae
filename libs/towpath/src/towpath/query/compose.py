"""A plan as a file for Docker Compose: a service per stage, and the jobs that look at its sinks."""

from __future__ import annotations

from towpath.query.plan import QueryPlan

BASE = "base.yml"
"""File beside the rendered one that says what such services have in common."""

UNTIL_IDLE = "--until-idle ${UNTIL_IDLE:-30s}"
"""The latency job ends by itself, after a time that is a setting."""


def render_compose(plan: QueryPlan, query: str) -> str:
    """Services of a query.

    Args:
        plan: its plan.
        query: name by which containers load it.

    Returns:
        YAML: the stages by their names, ``latency`` over all sinks, ``verify`` for the first one.
    """
    services = {stage.name: ("stage", f"pod {query} --stage {stage.name}") for stage in plan.stages}
    outputs = [output for stage in plan.stages for output in stage.outputs]
    sinks = list(dict.fromkeys(output.topic for output in outputs if output.default and not output.inner))
    if sinks:
        source = next(item.topic for stage in plan.stages for item in stage.inputs if item.partitions is None)
        every, first = " ".join(sinks), sinks[0]
        services["latency"] = ("latency", f"latency {every} --input-topic {source} --out /data/latency {UNTIL_IDLE}")
        services["verify"] = ("verify", f"verify {plan.app} --input-topic {source} --sink-topic {first} --json")
    lines = [f"# Made by: towpath plan {query} --format compose", "services:"]
    for name, (kind, command) in services.items():
        lines += [f"  {name}:", f"    extends: {{file: {BASE}, service: {kind}}}", f"    command: {command}"]
    return "\n".join(lines)
