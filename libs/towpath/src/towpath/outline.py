"""What a process that computes no rows knows of a query: its stages, what they read, and which of them keep state.

It is a part of what ``towpath plan QUERY --format json`` prints. The coordinator and a pod's supervisor get it from a
file, or from that command as a process of its own: they live long, and would hold the runtime's memory all the time. So
they also run where Polars is not installed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import msgspec

from towpath.errors import SettingsError

PLAN_LIMIT_S = 60.0
"""Loading a query takes a second; sixty on a busy machine with a cold disk."""

PLANS_VARIABLE = "TOWPATH_PLANS"
"""Environment variable with the directory of plans."""


class InputOutline(msgspec.Struct, frozen=True):
    """A topic that a stage reads; ``partitions`` is None for a source topic, which must exist."""

    topic: str
    partitions: int | None


class StageOutline(msgspec.Struct, frozen=True):
    """A stage; ``backend`` says where its state is kept, None: it has none."""

    name: str
    inputs: tuple[InputOutline, ...]
    backend: str | None

    @property
    def stateful(self) -> bool:
        """Whether the stage keeps state."""
        return self.backend is not None


class Outline(msgspec.Struct, frozen=True):
    """A query: the name of its application, and its stages in topological order."""

    app: str
    stages: tuple[StageOutline, ...]

    def stage(self, name: str) -> StageOutline:
        """The stage of that name.

        Raises:
            SettingsError: there is none; the message lists those there are.
        """
        for stage in self.stages:
            if stage.name == name:
                return stage
        names = ", ".join(stage.name for stage in self.stages)
        raise SettingsError(f"query {self.app!r} has no stage {name!r}; its stages: {names}")


def find_outline(query: str, settings: Sequence[str], plans: Path | None) -> Outline:
    """The outline of a query.

    Args:
        query: module of the query.
        settings: ``name=value`` arguments of its ``build`` function; with some, no file is looked for.
        plans: directory of files ``<query>.json`` as ``towpath plan`` prints them; None: there are none.

    Raises:
        SettingsError: the query can't be loaded, or its plan can't be read.
    """
    file = None if plans is None or settings else plans / f"{query}.json"
    if file is not None and file.is_file():
        return _decoded(file.read_bytes(), str(file))
    if find_spec("polars") is None:
        raise SettingsError(
            f"{query} can't be planned here, where Polars is not installed, and there is no plan of it in "
            f"{plans or f'the directory that {PLANS_VARIABLE} names, which is not set'}: elsewhere run towpath plan "
            f"{query} --format json > {query}.json, with --set where settings are wanted, put the file there and leave "
            "--set out"
        )
    return _decoded(_planned(query, settings), f"towpath plan {query}")


def _planned(query: str, settings: Sequence[str]) -> str:
    pairs = [part for pair in settings for part in ("--set", pair)]
    command = [sys.executable, "-m", "towpath.cli", "plan", query, "--format", "json", *pairs]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PLAN_LIMIT_S, check=False)  # noqa: S603
    if done.returncode != 0:
        raise SettingsError(done.stderr.strip().removeprefix("error: ") or f"{' '.join(command)} failed")
    return done.stdout


def _decoded(text: str | bytes, origin: str) -> Outline:
    try:
        return msgspec.json.decode(text, type=Outline)
    except msgspec.DecodeError as error:
        raise SettingsError(f"{origin}: {error}; expected what towpath plan --format json prints") from error
