"""Missing or old Java is one line with the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadgen.errors import JavaError
from loadgen.java import parse_java_version, require_java


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_292"', 8),
        ("no java at all", None),
    ],
)
def test_the_version_is_read_from_both_forms(text: str, major: int | None) -> None:
    assert parse_java_version(text) == major


def fake_java(directory: Path, text: str) -> dict[str, str]:
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{text}' >&2\n", encoding="utf-8")
    program.chmod(0o755)
    return {"JAVA_HOME": str(directory)}


def test_a_java_that_is_new_enough_is_accepted(tmp_path: Path) -> None:
    assert require_java(fake_java(tmp_path, 'openjdk version "21.0.1"')) == 21


def test_an_old_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(JavaError, match=r"is Java 11, Spark needs 17; install a Java 17 runtime"):
        require_java(fake_java(tmp_path, 'openjdk version "11.0.2"'))


def test_no_java_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(JavaError, match="no java on the PATH; install a Java 17 runtime"):
        require_java({"PATH": str(tmp_path)})
    with pytest.raises(JavaError, match=r"JAVA_HOME=/nowhere has no bin/java"):
        require_java({"JAVA_HOME": "/nowhere"})
