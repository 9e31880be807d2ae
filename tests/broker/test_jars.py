"""Maven and PySpark's Ivy really download, and bring the same jars."""

import shutil
from pathlib import Path

import pytest

from towpath.broker import kafka_jars
from towpath.broker.archive import archive_flags
from towpath.jars import (
    IvyResolver,
    JarDownloadError,
    MavenResolver,
    Resolver,
    ensure_jars,
    find_java,
    find_resolver,
)

pytestmark = [pytest.mark.broker, pytest.mark.slow]

NOP = "org.slf4j:slf4j-nop:1.7.36"


@pytest.fixture(params=["Maven", "Ivy"])
def resolver(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Resolver:
    if request.param == "Maven":
        maven = shutil.which("mvn")
        if maven is None:
            pytest.skip("Maven isn't installed: Ivy is what this machine uses")
        return MavenResolver(Path(maven))
    pytest.importorskip("pyspark", reason="PySpark isn't installed: Maven is what this machine uses")
    java = find_java().executable
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "java").symlink_to(java.resolve())
    monkeypatch.setenv("PATH", str(programs))
    found = find_resolver()
    assert isinstance(found, IvyResolver)
    return found


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("*.jar"))


def test_an_artifact_comes_with_what_it_needs(resolver: Resolver, tmp_path: Path) -> None:
    directory = ensure_jars([NOP], "nop", root=tmp_path / "cache", resolver=resolver)
    assert names(directory) == ["slf4j-api-1.7.36.jar", "slf4j-nop-1.7.36.jar"]
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.is_dir()] == [directory.name]


def test_an_artifact_comes_alone_when_asked_for(resolver: Resolver, tmp_path: Path) -> None:
    directory = ensure_jars([NOP], "nop", root=tmp_path, resolver=resolver, transitive=False)
    assert names(directory) == ["slf4j-nop-1.7.36.jar"]


def test_a_version_that_does_not_exist_is_reported(resolver: Resolver, tmp_path: Path) -> None:
    with pytest.raises(
        JarDownloadError, match=r"(?s)couldn't download the jars .* It said:\n.*slf4j-nop.*0\.0\.0-absent"
    ):
        ensure_jars(["org.slf4j:slf4j-nop:0.0.0-absent"], "nop", root=tmp_path, resolver=resolver)


def test_the_brokers_class_archive_is_made_and_used() -> None:
    flags = archive_flags(find_java(), kafka_jars())
    assert len(flags) == 2, "a JVM that can't write archives says why beside the jars, in classes-*.failed"
