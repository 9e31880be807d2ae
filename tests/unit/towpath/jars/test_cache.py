"""The cache of jars is complete or absent, whoever asks, and whatever happens meanwhile."""

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from towpath.jars import JarCacheError, JarDownloadError, ensure_jars
from towpath.jars import cache as cache_module
from towpath.jars.coordinates import Coordinate

THING = "org.example:thing:1.0"


class Shelf:
    """A resolver that takes jars from memory; it counts, and can break off half-way."""

    name = "the shelf"

    def __init__(self, *, extra: Sequence[str] = (), breaks: bool = False, leaves_out: bool = False) -> None:
        self.extra, self.breaks, self.leaves_out = extra, breaks, leaves_out
        self.fetched: list[tuple[str, bool]] = []

    def fetch(self, coordinates: Sequence[Coordinate], target: Path, work: Path, *, transitive: bool) -> None:
        assert work.is_dir()
        assert not list(target.iterdir())
        self.fetched += [(str(c), transitive) for c in coordinates]
        names = [] if self.leaves_out else [f"{c.artifact}-{c.version}.jar" for c in coordinates]
        for name in [*names, *self.extra]:
            (target / name).write_bytes(name.encode())
            if self.breaks:
                raise JarDownloadError("the shelf broke: build another")


def test_the_jars_are_there_and_the_caller_was_told_once(tmp_path: Path) -> None:
    said: list[str] = []
    shelf = Shelf(extra=["needed-2.jar"])
    for _ in range(2):
        directory = ensure_jars([THING], "set", root=tmp_path, resolver=shelf, notify=said.append)
        assert sorted(path.name for path in directory.glob("*.jar")) == ["needed-2.jar", "thing-1.0.jar"]
    assert shelf.fetched == [(THING, True)]
    assert said == [f"downloading {THING} by the shelf (once) into {directory}"]


def test_the_extent_of_the_request_is_passed_on(tmp_path: Path) -> None:
    shelf = Shelf()
    ensure_jars([THING], "set", root=tmp_path, resolver=shelf, transitive=False)
    assert shelf.fetched == [(THING, False)]


def test_a_download_that_broke_off_leaves_nothing_that_looks_complete(tmp_path: Path) -> None:
    with pytest.raises(JarDownloadError, match="the shelf broke"):
        ensure_jars([THING], "set", root=tmp_path, resolver=Shelf(breaks=True))
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    assert (ensure_jars([THING], "set", root=tmp_path, resolver=Shelf()) / "thing-1.0.jar").exists()


def test_what_a_killed_download_left_is_removed(tmp_path: Path) -> None:
    directory = ensure_jars([THING], "set", root=tmp_path, resolver=Shelf())
    stale = directory.with_name(f"{directory.name}.part-abc")
    stale.mkdir()
    (directory / "thing-1.0.jar").unlink()
    ensure_jars([THING], "set", root=tmp_path, resolver=Shelf())
    assert not stale.exists()


@pytest.mark.parametrize("damage", ["removed", "truncated", "marker"])
def test_a_damaged_directory_is_filled_anew(tmp_path: Path, damage: str) -> None:
    directory = ensure_jars([THING], "set", root=tmp_path, resolver=Shelf())
    if damage == "removed":
        (directory / "thing-1.0.jar").unlink()
    elif damage == "truncated":
        (directory / "thing-1.0.jar").write_bytes(b"")
    else:
        (directory / "complete.json").write_bytes(b"{")
    shelf = Shelf()
    ensure_jars([THING], "set", root=tmp_path, resolver=shelf)
    assert shelf.fetched
    assert (directory / "thing-1.0.jar").read_bytes() == b"thing-1.0.jar"


def test_a_resolver_that_leaves_out_what_was_asked_for_has_failed(tmp_path: Path) -> None:
    with pytest.raises(JarDownloadError, match=f"reported success but left out {THING}: try again"):
        ensure_jars([THING], "set", root=tmp_path, resolver=Shelf(leaves_out=True, extra=["other.jar"]))


def test_of_several_that_ask_at_once_one_downloads(tmp_path: Path) -> None:
    shelf = Shelf()
    ready = threading.Barrier(4)

    def ask() -> None:
        ready.wait(10)
        ensure_jars([THING], "set", root=tmp_path, resolver=shelf)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert shelf.fetched == [(THING, True)]


def test_a_cache_that_cannot_be_written_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "root").write_text("a file in its place")
    with pytest.raises(JarCacheError, match=r"^the jar cache .*root can't be written \(.*\): .*XDG_CACHE_HOME"):
        ensure_jars([THING], "set", root=tmp_path / "root", resolver=Shelf())


def test_a_full_disk_is_reported_with_what_must_be_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "MINIMUM_FREE_BYTES", 1 << 62)
    with pytest.raises(JarCacheError, match=r"^no space for jars in .*: \d+ MiB must be free there"):
        ensure_jars([THING], "set", root=tmp_path, resolver=Shelf())
