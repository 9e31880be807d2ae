"""``towpath plan``: the stages of a query, before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.options import QueryArgument, SetOption, parse_pairs
from towpath.cli.spark import SERVICES, SPARK, EngineOption, check_engine, plan_on_spark

if TYPE_CHECKING:
    from towpath.query.plan import QueryPlan


def plan(
    query: QueryArgument,
    form: Annotated[str, typer.Option("--format", help="text, json, mermaid, svg or compose")] = "text",
    set_: SetOption = None,
    engine: EngineOption = SERVICES,
) -> None:
    """Show the stages, topics, edges and state of a query; with --engine spark, how Spark runs each step, or why not.

    Example: towpath plan queries.key_count --format svg > plan.svg
    """
    from towpath.errors import SettingsError
    from towpath.query.compose import render_compose
    from towpath.query.loading import load_query
    from towpath.query.render import render_json, render_mermaid, render_text
    from towpath.query.svg import render_svg

    check_engine(engine, {}, {})
    if engine == SPARK:
        typer.echo(plan_on_spark(query, parse_pairs(set_, "--set"), form))
        return
    renderers: dict[str, Callable[[QueryPlan], str]] = {
        "text": render_text,
        "json": render_json,
        "mermaid": render_mermaid,
        "svg": render_svg,
        "compose": lambda found: render_compose(found, query),
    }
    if form not in renderers:
        raise SettingsError(f"--format {form}: expected one of {', '.join(renderers)}")
    typer.echo(renderers[form](load_query(query, parse_pairs(set_, "--set"))))
