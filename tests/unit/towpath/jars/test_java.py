"""Finding a Java runtime that is new enough."""

from pathlib import Path

import pytest

from towpath.jars import JavaMissingError, JavaTooOldError, find_java
from towpath.jars.java import parse_java_version


def make_java(directory: Path, version_line: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / "java"
    program.write_text(f"#!/bin/sh\necho '{version_line}' >&2\n")
    program.chmod(0o755)
    return program


@pytest.fixture(autouse=True)
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25" 2025-09-16 LTS', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.1"', 17),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
        ("", None),
    ],
)
def test_the_release_is_read_from_what_java_says(text: str, release: int | None) -> None:
    assert parse_java_version(text) == release


def test_java_on_the_path_is_found(tmp_path: Path) -> None:
    program = make_java(tmp_path / "bin", 'openjdk version "21.0.2"')
    assert (find_java().executable, find_java().release) == (program, 21)


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_java(tmp_path / "bin", 'openjdk version "21.0.2"')
    program = make_java(tmp_path / "home" / "bin", 'openjdk version "17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java().executable == program


def test_a_missing_java_is_reported_with_the_remedy() -> None:
    with pytest.raises(
        JavaMissingError, match=r"^Java is missing: install a Java 17 \(or newer\) runtime, so that `java`"
    ):
        find_java()


def test_a_wrong_java_home_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(
        JavaMissingError, match=r"^JAVA_HOME is .*gone, which has no bin/java: point it at .* or unset it$"
    ):
        find_java()


def test_an_old_java_is_named_with_its_release(tmp_path: Path) -> None:
    make_java(tmp_path / "bin", 'java version "1.8.0_392"')
    with pytest.raises(JavaTooOldError, match=r"java is Java 8, but Java 17 or newer is needed: install it"):
        find_java()


def test_a_program_that_tells_no_version_is_no_java(tmp_path: Path) -> None:
    make_java(tmp_path / "bin", "Unable to locate a Java Runtime")
    with pytest.raises(JavaMissingError, match=r"java doesn't tell its version: install a Java 17"):
        find_java()


def test_a_file_that_does_not_run_is_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = make_java(tmp_path / "home" / "bin", "")
    program.write_text("not a program")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    with pytest.raises(JavaMissingError, match=r"java doesn't run \(.*\): install a Java 17"):
        find_java()
