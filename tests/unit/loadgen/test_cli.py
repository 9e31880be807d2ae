"""The command line: every command has an example, and a mistake is one line and exit status 2."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from loadgen.cli import app
from loadgen.load import LoadResult, readers_for

COMMANDS = ("load", "latency", "receive", "verify")


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    return result.exit_code, re.sub(r"\x1b\[[0-9;]*m", "", result.output)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_an_example(command: str) -> None:
    code, text = invoke(command, "--help")
    assert code == 0
    assert re.search(rf"Examples?: towpath-load {command} ", text)


def test_without_arguments_the_commands_are_listed() -> None:
    _, text = invoke()
    assert all(command in text for command in COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rate", "fast"), "--rate 'fast' is neither a number of events per second nor max"),
        (("--duration", "soon"), "--duration='soon' is no length of time"),
        (("--set", "hot_auction_ratio"), "--set 'hot_auction_ratio' is not NAME=VALUE"),
        (("--set", "hotness=3"), "unknown option generator.hotness"),
        (("--profile", "zigzag(1)"), "cannot read the profile 'zigzag(1)'"),
        (("--create-topic", "many"), "write --create-topic partitions=8"),
    ],
)
def test_a_mistake_is_one_line(arguments: tuple[str, ...], message: str) -> None:
    code, text = invoke("load", *arguments)
    assert code == 2
    assert message in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "either --sink-topic, or --files for a directory of files"),
        (("--sink-topic", "t", "--files", "d"), "either --sink-topic, or --files for a directory of files"),
        (("--files", "d", "--state", "s"), "--state goes with --sink-topic"),
    ],
)
def test_an_output_is_one_topic_or_one_directory(arguments: tuple[str, ...], message: str) -> None:
    code, text = invoke("verify", "q10", *arguments)
    assert code == 2
    assert message in text


@pytest.mark.parametrize(
    ("partitions", "cores", "keyed", "readers"), [(8, 2, False, 2), (3, 2, False, 1), (6, 4, False, 3), (3, 2, True, 2)]
)
def test_unkeyed_readers_divide_the_partitions(partitions: int, cores: int, keyed: bool, readers: int) -> None:
    assert readers_for(partitions, cores, keyed=keyed) == readers


def test_a_result_is_one_line_of_json() -> None:
    result = LoadResult(
        events=10, seconds=1.0, events_per_s=10.0, delay_p50_ms=1.0, delay_p99_ms=2.0, delay_max_ms=3.0,
        delay_max_with_warmup_ms=9.0, warmup_s=5, t0_ms=1, interrupted=False, topic="t", partitions=8,
        partitioner="k mod partitions", profile="constant(10)", seed=42, clock_offset_ms=0.1, producer={"acks": "all"},
    )  # fmt: skip
    assert "\n" not in result.to_json()
    assert json.loads(result.to_json())["delay_p99_ms"] == 2.0
