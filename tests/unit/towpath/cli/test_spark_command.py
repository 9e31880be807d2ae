"""What is wrong with a run on Spark is said before Spark, Java or Kafka are looked for."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from towpath.cli import main
from towpath.spark import session
from towpath.spark.errors import SparkMissingError


def error_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["towpath", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0), capsys.readouterr().err


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be looked for."""

    def looked() -> None:
        raise AssertionError("PySpark was looked for")

    monkeypatch.setattr(session, "check_installed", looked)


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["queries.q16", "--engine", "spark"], "'aggregate' in stage 'member': it gives results together"),
        (["queries.q2", "--engine", "spork"], "--engine spork: expected one of services, spark; did you mean 'spark'?"),
        (["queries.q2", "--batch"], "--batch is for --engine spark, and this is --engine services"),
        (["queries.q2", "--engine", "spark", "--static"], "--static is for --engine services"),
        (["queries.q2", "--engine", "spark", "--batch", "--until-end"], "for streaming, and this is --batch"),
        (["queries.q2", "--engine", "spark", "--spark", "a"], "--spark 'a': expected name=value"),
        (
            ["queries.q2", "--engine", "spark", "--spark", "kafka.sasl.jaas.config=hunter2"],
            "--spark kafka.sasl.jaas.config: a secret, which others can read on a command line",
        ),
        (
            ["queries.q2", "--engine", "spark", "--kafka-config", "/nowhere/x"],
            "properties file /nowhere/x can't be read",
        ),
    ],
)
def test_a_call_that_can_not_be_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], error: str
) -> None:
    status, said = error_of(monkeypatch, capsys, "run", *arguments)
    assert (status, said.count("\n")) == (2, 1)
    assert error in said
    assert "hunter2" not in said


def test_without_pyspark_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyspark" else real(name))
    with pytest.raises(SparkMissingError, match=r"pip install 'towpath\[spark\]'"):
        session.check_installed()


def test_the_connector_is_that_of_the_load_generator() -> None:
    from loadgen import jars

    assert session.CONNECTOR == jars.CONNECTOR_JARS


def test_the_command_line_needs_no_pyspark() -> None:
    code = "import sys, towpath.cli, towpath.query, towpath.spark.report; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
