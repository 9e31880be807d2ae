"""``towpath plan``: the stages of a query, before anything runs."""

from __future__ import annotations

from typing import Annotated

import typer

from towpath.cli.options import QueryArgument, SetOption, parse_pairs


def plan(
    query: QueryArgument,
    form: Annotated[str, typer.Option("--format", help="text, json or mermaid")] = "text",
    set_: SetOption = None,
) -> None:
    """Show the stages, topics, edges and state of a query.

    Example: towpath plan queries.key_count --format mermaid
    """
    from towpath.errors import SettingsError
    from towpath.query.loading import load_query
    from towpath.query.render import render_json, render_mermaid, render_text

    renderers = {"text": render_text, "json": render_json, "mermaid": render_mermaid}
    if form not in renderers:
        raise SettingsError(f"--format {form}: expected one of {', '.join(renderers)}")
    typer.echo(renderers[form](load_query(query, parse_pairs(set_, "--set"))))
