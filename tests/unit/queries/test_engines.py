"""Which NEXMark queries Spark can run, and why not."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from towpath.cli import app
from towpath.spark.report import table_dicts

STREAMING = {
    "key_count": "",
    "map_map": "",
    **dict.fromkeys(("q0", "q1", "q2", "q3", "q5", "q7", "q8"), ""),
    **dict.fromkeys(("q11", "q12", "q13", "q14", "q17", "q18", "q19", "q20", "q21", "q22"), ""),
    "q4": "'aggregate' in stage 'best': it gives results together with those before",
    "q6": "'window' in stage 'winner': its windows close when event time comes to a moment of their rows",
    "q9": "'top' in stage 'winner': it gives running results (update mode), and enrich before it gives final ones",
    "q15": "'aggregate' in stage 'member': it gives results together with those before",
    "q16": "'aggregate' in stage 'member': it gives results together with those before",
}
"""Query → how its reason begins; nothing: it streams."""


@pytest.fixture(scope="module")
def table():
    return {row["query"].removeprefix("queries."): row for row in table_dicts("queries", {})}


@pytest.mark.parametrize("name", STREAMING)
def test_a_query_streams_or_the_reason_is_known(table, name):
    row = table[name]
    assert row["reasons"].get("streaming", "").startswith(STREAMING[name])
    assert row["streaming"] is not bool(STREAMING[name])


@pytest.mark.parametrize("name", STREAMING)
def test_every_query_runs_in_batch(table, name):
    assert table[name]["batch"] is True, table[name]["reasons"]


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_the_command_shows_the_table():
    result = run("engines", "queries")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0].split() == ["query", "streaming", "batch"]
    assert next(line for line in lines if line.startswith("queries.q16")).split() == ["queries.q16", "no", "yes"]
    assert "    streaming: 'aggregate' in stage 'member': it gives results together" in result.output


def test_the_command_gives_the_table_as_json_for_one_query():
    (row,) = json.loads(run("engines", "queries.q2", "--json").output)
    assert row == {"query": "queries.q2", "streaming": True, "batch": True, "reasons": {}}


def test_a_mode_of_a_query_has_a_judgement_of_its_own():
    (row,) = json.loads(run("engines", "queries.q9", "--set", "mode=on_close", "--json").output)
    assert "until('expires')" in row["reasons"]["streaming"]


def test_plan_shows_each_step_in_both_modes():
    output = run("plan", "queries.q5", "--engine", "spark").output
    assert "streaming: runs" in output
    assert "  hottest: highest: groupBy window, rows collected and compared, append mode" in output
    assert "  hottest: q5: Kafka sink, append mode" in output
    plan = json.loads(run("plan", "queries.q16", "--engine", "spark", "--format", "json").output)
    assert (plan["streaming"]["runs"], plan["batch"]["runs"]) == (False, True)
