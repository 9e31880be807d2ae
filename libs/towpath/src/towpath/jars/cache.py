"""A per-user cache of jars: complete or absent, however many processes ask at once."""

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import platformdirs

from towpath.jars.coordinates import Coordinate, parse_coordinates, request_name
from towpath.jars.errors import JarCacheError, JarDownloadError
from towpath.jars.lock import locked
from towpath.jars.resolvers import DOWNLOAD_DEADLINE, Resolver, find_resolver

__all__ = ["ensure_jars", "jar_cache_root"]

MINIMUM_FREE_BYTES = 256 << 20
"""Free disk space that a download asks for: Kafka's jars are 54 MB, held twice until the
rename (resolver's cache and copy), and as much again as a reserve."""

_MARKER = "complete.json"
_LOCK_DEADLINE = DOWNLOAD_DEADLINE + 60.0
"""Seconds to wait for another process that is downloading the same jars: its own deadline and a margin."""


class _Marker(msgspec.Struct, frozen=True):
    """What a complete directory holds: file name → size in bytes."""

    coordinates: list[str]
    resolver: str
    jars: dict[str, int]


def jar_cache_root() -> Path:
    """Gives the directory of the user's jars (`XDG_CACHE_HOME` is honoured)."""
    return Path(platformdirs.user_cache_dir("towpath")) / "jars"


def ensure_jars(
    coordinates: Sequence[str],
    cache_name: str,
    *,
    transitive: bool = True,
    root: Path | None = None,
    resolver: Resolver | None = None,
    notify: Callable[[str], None] | None = None,
) -> Path:
    """Gives a directory that holds the jars of some artifacts, downloading them if needed.

    The directory is complete: it is filled elsewhere and renamed. Of several processes that
    ask at once one downloads and the others wait. A directory from which jars were removed
    is filled anew.

    Args:
        coordinates: Artifacts as `group:artifact:version`; versions are pins.
        cache_name: What the set is for, such as `kafka-4.4.0`; part of the directory's name.
        transitive: Whether everything the artifacts need at run time comes with them.
        root: Cache directory; `jar_cache_root()` by default.
        resolver: What downloads; by default Maven, else PySpark's Ivy.
        notify: Called with one line of text before a download starts.

    Raises:
        ValueError: If a coordinate is malformed.
        JarsError: If the jars can't be had; see `towpath.jars.errors`.
    """
    wanted = parse_coordinates(coordinates)
    directory = (root or jar_cache_root()) / request_name(cache_name, wanted, transitive=transitive)
    if _is_complete(directory):
        return directory
    with _cache_errors(directory.parent):
        directory.parent.mkdir(parents=True, exist_ok=True)
        with locked(directory.with_name(f"{directory.name}.lock"), _LOCK_DEADLINE):
            if not _is_complete(directory):
                _download(wanted, directory, resolver or find_resolver(), notify, transitive=transitive)
    return directory


def _download(
    wanted: Sequence[Coordinate],
    directory: Path,
    resolver: Resolver,
    notify: Callable[[str], None] | None,
    *,
    transitive: bool,
) -> None:
    _check_space(directory.parent)
    if notify is not None:
        notify(f"downloading {', '.join(map(str, wanted))} by {resolver.name} (once) into {directory}")
    # The lock is held, so whatever an interrupted download left here belongs to nobody.
    for stale in directory.parent.glob(f"{directory.name}.part-*"):
        shutil.rmtree(stale, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f"{directory.name}.part-", dir=directory.parent) as part:
        target, work = Path(part) / "jars", Path(part) / "work"
        target.mkdir()
        work.mkdir()
        resolver.fetch(wanted, target, work, transitive=transitive)
        _mark_complete(target, wanted, resolver)
        shutil.rmtree(directory, ignore_errors=True)
        target.rename(directory)


def _mark_complete(target: Path, wanted: Sequence[Coordinate], resolver: Resolver) -> None:
    jars = {path.name: path.stat().st_size for path in sorted(target.glob("*.jar"))}
    missing = [str(c) for c in wanted if f"{c.artifact}-{c.version}.jar" not in jars]
    if missing:
        raise JarDownloadError(f"{resolver.name} reported success but left out {', '.join(missing)}: try again")
    marker = _Marker([str(c) for c in wanted], resolver.name, jars)
    (target / _MARKER).write_bytes(msgspec.json.encode(marker))


def _is_complete(directory: Path) -> bool:
    try:
        marker = msgspec.json.decode((directory / _MARKER).read_bytes(), type=_Marker)
        return all((directory / name).stat().st_size == size for name, size in marker.jars.items())
    except (OSError, msgspec.MsgspecError):
        return False


def _check_space(directory: Path) -> None:
    free = shutil.disk_usage(directory).free
    if free < MINIMUM_FREE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(directory))


@contextlib.contextmanager
def _cache_errors(root: Path) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise JarCacheError(f"{error}: end the process that holds it, try again") from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise JarCacheError(
                f"no space for jars in {root}: {MINIMUM_FREE_BYTES >> 20} MiB must be free there, "
                "or set XDG_CACHE_HOME to another disk"
            ) from error
        raise JarCacheError(
            f"the jar cache {root} can't be written ({error.strerror or error}): "
            "make it writable, or set XDG_CACHE_HOME to another directory"
        ) from error
