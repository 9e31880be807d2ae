"""What README and quick start tell to type exists; tests of containers and processes type it."""

from __future__ import annotations

import re
import shlex

import click
import pytest
import typer

from loadgen.cli import app as load_app
from tests.harness.documented import ROOT, commands
from towpath.cli import app

DOCUMENTS = ("README.md", "docs/quickstart.md")
PROGRAMS = {"towpath": app, "towpath-load": load_app}


def typed(beginning: str) -> list[str]:
    return sorted({command for document in DOCUMENTS for command in commands(document, beginning)})


def parse(command: click.Command, words: list[str], name: str) -> None:
    """Parse a command line as the program would, without running it."""
    context = command.make_context(name, words, resilient_parsing=isinstance(command, click.Group))
    if isinstance(command, click.Group):
        name, sub, rest = command.resolve_command(context, [*context.protected_args, *context.args])
        assert sub is not None
        assert name is not None
        parse(sub, rest, name)


@pytest.mark.parametrize("command", typed("towpath"))
def test_a_command_line_is_understood(command: str) -> None:
    program, *words = shlex.split(re.sub(r" [>&].*", "", command))
    parse(typer.main.get_command(PROGRAMS[program]), words, program)


@pytest.mark.parametrize("command", typed("make"))
def test_a_target_exists(command: str) -> None:
    assert re.search(rf"^{command.split()[1]}:.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_the_tour_of_the_readme_is_part_of_the_quick_start_which_is_run() -> None:
    tour = commands("README.md", "docker compose")
    assert tour
    assert set(tour) <= set(commands("docs/quickstart.md", "docker compose"))
