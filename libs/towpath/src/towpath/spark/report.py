"""What Spark can run, for people and tools: a query step by step, and the queries of a package in a table."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from towpath.query.errors import QueryLoadError
from towpath.query.loading import ATTRIBUTES, Plannable, find_query, imported
from towpath.spark.errors import NotOnSparkError
from towpath.spark.judge import Mode, graph_of, judge, unfit


def plan_dict(query: Plannable) -> dict[str, Any]:
    """How each step runs in each mode: mode → ``runs`` and ``steps`` (stage, step, how, reason)."""
    graph = graph_of(query)
    found = {mode.value: judge(graph, mode) for mode in Mode}
    return {
        "app": query.plan().app,
        **{
            mode: {"runs": not unfit(findings), "steps": [vars(finding) for finding in findings]}
            for mode, findings in found.items()
        },
    }


def plan_text(query: Plannable) -> str:
    """The same as lines for a terminal."""
    plan = plan_dict(query)
    lines = [plan["app"]]
    for mode in Mode:
        judged = plan[mode.value]
        lines.append(f"{mode.value}: {'runs' if judged['runs'] else 'does not run'}")
        for step in judged["steps"]:
            outcome = step["how"] if step["reason"] is None else f"NOT: {step['reason']}"
            lines.append(f"  {step['stage']}: {step['step']}: {outcome}")
    return "\n".join(lines)


def table_dicts(package: str, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each query of a package: ``query``, ``streaming`` and ``batch`` (whether it runs), ``reasons`` (mode → text).

    Raises:
        QueryLoadError: there is no such package, or no query in it.
    """
    rows = [_row(name, settings) for name in _queries(package)]
    if not rows:
        raise QueryLoadError(f"package {package!r} has no module with a query")
    return rows


def table_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """The same as a table."""
    width = max(len(row["query"]) for row in rows)
    lines = [f"{'query':{width}}  streaming  batch"]
    for row in rows:
        marks = ("yes" if row[mode.value] else "no" for mode in Mode)
        lines.append(f"{row['query']:{width}}  {next(marks):9}  {next(marks)}")
        lines += [f"{'':{width}}    {mode}: {reason}" for mode, reason in row["reasons"].items()]
    return "\n".join(lines)


def _row(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    query = find_query(name, settings)
    reasons: dict[str, str] = {}
    for mode in Mode:
        try:
            wrong = unfit(judge(graph_of(query), mode))
        except NotOnSparkError as error:
            reasons[mode.value] = str(error)
        else:
            if wrong:
                reasons[mode.value] = f"{wrong[0].step!r} in stage {wrong[0].stage!r}: {wrong[0].reason}"
    return {"query": name, **{mode.value: mode.value not in reasons for mode in Mode}, "reasons": reasons}


def _queries(package: str) -> Iterator[str]:
    """Modules of the package that hold a query, ``q2`` before ``q10``; the module itself where it is none."""
    found = imported(package.partition(":")[0])
    if not hasattr(found, "__path__"):
        yield package
        return
    names = sorted((module.name for module in pkgutil.iter_modules(found.__path__)), key=_natural)
    for name in names:
        if hasattr(imported(f"{package}.{name}"), ATTRIBUTES[0]):
            yield f"{package}.{name}"


def _natural(name: str) -> tuple[str, int]:
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or 0)
