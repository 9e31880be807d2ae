"""``towpath state``: committed state of a stage that is not running, read from its stores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from towpath.cli.options import QueryArgument, SetOption, parse_pairs

state_app = typer.Typer(no_args_is_help=True, help="Committed state of a stopped stage.")


@state_app.callback()
def _root() -> None:
    """Committed state of a stopped stage."""


@state_app.command()
def dump(
    query: QueryArgument,
    stage: Annotated[str, typer.Option(help="Stage whose state is read")],
    output: Annotated[Path, typer.Option(help="Parquet file to write")],
    state_dir: Annotated[Path, typer.Option(help="Directory of the stores", envvar="TOWPATH_STATE_DIR")] = Path(
        "build/state"
    ),
    set_: SetOption = None,
) -> None:
    """Write the tables of a stage as Parquet: table, partition, key, value (JSON).

    Example: towpath state dump queries.key_count --stage count --output build/state.parquet
    """
    from towpath.query.loading import load_query
    from towpath.stage.dump import dump_state

    plan = load_query(query, parse_pairs(set_, "--set")).stage(stage)
    rows = dump_state(plan, state_dir, output)
    typer.echo(f"{rows} entries of stage {stage} written to {output}")
