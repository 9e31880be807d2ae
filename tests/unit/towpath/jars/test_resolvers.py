"""What Maven and Ivy are asked, which of them is chosen, and what their failures say."""

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from towpath.jars import (
    IvyResolver,
    JarDownloadError,
    MavenResolver,
    ResolverMissingError,
    find_resolver,
)
from towpath.jars.coordinates import Coordinate, parse_coordinates, request_name
from towpath.jars.resolvers import render_ivy, render_pom

ONE = Coordinate("org.example", "thing_2.13", "1.0")
_POM = "{http://maven.apache.org/POM/4.0.0}"


def program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def empty_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    return directory


def test_coordinates_are_read_and_printed() -> None:
    assert parse_coordinates(["org.example:thing_2.13:1.0"]) == (ONE,)
    assert str(ONE) == "org.example:thing_2.13:1.0"


@pytest.mark.parametrize("text", ["a:b", "a:b:c:d", "a::c", "a:b:<c>", "a:b:c d", ""])
def test_a_malformed_coordinate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not group:artifact:version$"):
        parse_coordinates([text])


def test_no_coordinates_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        parse_coordinates([])


def test_another_pin_or_another_extent_has_another_directory() -> None:
    newer = Coordinate(ONE.group, ONE.artifact, "1.1")
    names = {
        request_name("set", [ONE], transitive=True),
        request_name("set", [ONE], transitive=False),
        request_name("set", [newer], transitive=True),
        request_name("set", [ONE, newer], transitive=True),
    }
    assert len(names) == 4
    assert all(name.startswith("set-") for name in names)


def test_the_order_of_coordinates_does_not_matter_for_the_directory() -> None:
    other = Coordinate("org.example", "other", "2")
    assert request_name("set", [ONE, other], transitive=True) == request_name("set", [other, ONE], transitive=True)


@pytest.mark.parametrize("transitive", [True, False])
def test_maven_is_asked_for_the_artifact_with_or_without_what_it_needs(transitive: bool) -> None:
    project = ElementTree.fromstring(render_pom([ONE], transitive=transitive))
    (dependency,) = project.iter(f"{_POM}dependency")
    assert [dependency.findtext(f"{_POM}{tag}") for tag in ("groupId", "artifactId", "version")] == [
        ONE.group, ONE.artifact, ONE.version,
    ]  # fmt: skip
    assert (dependency.find(f"{_POM}exclusions") is None) == transitive


@pytest.mark.parametrize("transitive", [True, False])
def test_ivy_is_asked_for_the_artifact_with_or_without_what_it_needs(transitive: bool) -> None:
    (dependency,) = ElementTree.fromstring(render_ivy([ONE], transitive=transitive)).iter("dependency")
    assert (dependency.get("org"), dependency.get("name"), dependency.get("rev")) == (
        "org.example",
        "thing_2.13",
        "1.0",
    )
    assert dependency.get("transitive") == str(transitive).lower()


def test_maven_is_chosen_where_it_is_installed(empty_path: Path) -> None:
    maven = program(empty_path / "mvn", "exit 0")
    assert find_resolver() == MavenResolver(maven)


def test_without_maven_pysparks_ivy_is_chosen_and_pyspark_is_not_imported(
    empty_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jars = tmp_path / "site" / "pyspark" / "jars"
    jars.mkdir(parents=True)
    (jars.parent / "__init__.py").write_text("raise AssertionError('imported')")
    (jars / "ivy-9.9.9.jar").touch()
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert find_resolver() == IvyResolver(jars / "ivy-9.9.9.jar")
    assert "pyspark" not in sys.modules


def test_without_either_the_error_says_what_to_install(
    empty_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site" / "pyspark").mkdir(parents=True)
    (tmp_path / "site" / "pyspark" / "__init__.py").touch()  # a PySpark without its jars
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    with pytest.raises(ResolverMissingError, match=r"^nothing can download jars here: install Maven .* or PySpark"):
        find_resolver()


def test_a_failed_download_shows_what_the_resolver_said_about_errors(tmp_path: Path) -> None:
    said = ["noise", "[ERROR] no route to host", "[ERROR]", "[ERROR] Re-run Maven using the -X switch"]
    maven = program(tmp_path / "mvn", "\n".join([*(f"echo '{line}'" for line in said), "exit 3"]))
    with pytest.raises(JarDownloadError) as caught:
        MavenResolver(maven).fetch([ONE], tmp_path, tmp_path, transitive=True)
    assert str(caught.value) == (
        "Maven couldn't download the jars (exit status 3): check the network, try again. It said:\n"
        "  [ERROR] no route to host"
    )


def test_a_resolver_that_does_not_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(JarDownloadError, match=r"^Maven doesn't run \(.*\): repair or remove it$"):
        MavenResolver(tmp_path / "gone").fetch([ONE], tmp_path, tmp_path, transitive=True)
