"""Options that several commands share."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from towpath.errors import SettingsError
from towpath.outline import PLANS_VARIABLE

QueryArgument = Annotated[str, typer.Argument(help="Module that holds the query, e.g. queries.key_count")]
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
"""Address of Kafka unless one is named; that of a stage's settings."""

BootstrapOption = Annotated[
    str | None,
    typer.Option(
        help="Kafka bootstrap servers, host:port,…", envvar="TOWPATH_BOOTSTRAP", show_default=DEFAULT_BOOTSTRAP
    ),
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="Argument of the query's build(), name=value; may be repeated")
]
OptionOption = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", help="Any other stage setting, name=value, e.g. -o commit_interval_ms=50"),
]
StateDirOption = Annotated[
    Path | None, typer.Option(help="Directory of the stores", envvar="TOWPATH_STATE_DIR", show_default="build/state")
]
KafkaConfigOption = Annotated[
    Path | None,
    typer.Option(help="File of key=value Kafka client properties (TLS, SASL)", envvar="TOWPATH_KAFKA_CONFIG"),
]
PlansOption = Annotated[
    Path | None,
    typer.Option(
        help="Directory of plans made before, <query>.json as towpath plan --format json prints it, instead of loading "
        "the query",
        envvar=PLANS_VARIABLE,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print machine-readable JSON on standard output")]


def parse_pairs(pairs: Sequence[str] | None, option: str) -> dict[str, Any]:
    """``name=value`` pairs; a value that is JSON (number, true, list) is read as such, else as text.

    Raises:
        SettingsError: a pair has no ``=``.
    """
    values: dict[str, Any] = {}
    for pair in pairs or ():
        name, separator, text = pair.partition("=")
        if not separator or not name:
            raise SettingsError(f"{option} {pair!r}: expected name=value")
        try:
            values[name] = json.loads(text)
        except json.JSONDecodeError:
            values[name] = text
    return values


def parse_counts(pairs: Sequence[str] | None, option: str) -> dict[str, int]:
    """``stage=count`` pairs.

    Raises:
        SettingsError: a pair is not of that form, or there are two for a stage.
    """
    counts: dict[str, int] = {}
    named = Counter(pair.partition("=")[0] for pair in pairs or ())
    for name, times in named.items():
        if times > 1:
            raise SettingsError(f"{option}: {name} is named {times} times; say one number for it")
    for name, value in parse_pairs(pairs, option).items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise SettingsError(f"{option} {name}={value}: expected a whole number, e.g. {name}=2")
        counts[name] = value
    return counts
