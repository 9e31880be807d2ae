"""A directory of Parquet files: where each lies, and how it comes there whole or not at all.

::

    directory/dt=2015-07-15/hm=00%3A00/part-00003-<id>.parquet                   final
                                      /.part-00003-<id>.parquet.<attempt>.tmp    being written
                                      /_SUCCESS                                  no more rows come that are in time

Directories are named as Hive does, ``column=value`` with characters that mean something in paths as ``%`` and two
hexadecimal digits; Spark, Polars, PyArrow and DuckDB make columns of that. They pass over names that begin with ``.``
or ``_``.

A file is written under a name of its own, brought to the disk, and renamed; the directory entry is brought to the disk,
too. That takes a file system, local or mounted, on which a rename replaces a name at once. Object stores have none.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from uuid import uuid4

import polars as pl

from statemgr.errors import StateError
from towpath.errors import SettingsError, StageStoppedError

PartValue = str | int | bool
"""Value of a column that directories are named by."""

MARKER = "_SUCCESS"
"""Name of a complete directory's marker, as Hadoop, Spark and Flink have it."""

MAX_NAME_BYTES = 255
"""Longest name of a directory or file, on Linux."""

NO_TEXT = "__HIVE_DEFAULT_PARTITION__"
"""Hive's name for a text without characters: a directory named ``column=`` is refused by Spark."""

_SUFFIX = ".tmp"
_SPECIAL = re.compile(r"[\x00-\x1f\"#%'*/:=?\\\x7f{\[\]^]")


def directory_name(column: str, value: PartValue) -> str:
    """Name of the directory of one value."""
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    return f"{_escaped(column)}={_escaped(text) or NO_TEXT}"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: f"%{ord(found[0]):02X}", text)


class ParquetDirectory:
    """Files under one directory.

    Args:
        root: the directory, an absolute path; it is made if need be, the one that it lies in is not.
        by: columns that directories are named by.
    """

    def __init__(self, root: Path, by: Sequence[str]) -> None:
        self.root = root
        self._by = tuple(by)

    def check(self) -> None:
        """Make the directory, and try to write in it.

        Raises:
            SettingsError: it can't be done.
        """
        if not self.root.parent.is_dir():
            raise SettingsError(
                f"files can't be written to {self.root}: there is no directory {self.root.parent}; make it, or mount "
                "what belongs there"
            )
        try:
            self.root.mkdir(exist_ok=True)
            with NamedTemporaryFile(prefix=".towpath-", suffix=_SUFFIX, dir=self.root):
                pass
        except OSError as error:
            raise SettingsError(
                f"files can't be written to {self.root}: {error.strerror}; let this user write there, or name another "
                "directory"
            ) from error

    def place(self, part: Sequence[PartValue], name: str) -> str:
        """Path of a file below the root."""
        names = (directory_name(column, value) for column, value in zip(self._by, part, strict=True))
        return "/".join((*names, name))

    def write(self, place: str, rows: Callable[[], pl.DataFrame]) -> None:
        """Put a file in its place; one that is there already stays as it is.

        Args:
            place: path below the root, which stands for these rows and no others.
            rows: gives the rows, if they are needed.

        Raises:
            StageStoppedError: it can't be written.
        """
        path = self.root / place
        with _explained(path):
            self._make(path.parent)
            if not path.exists():
                _write(path, rows())
            _sync(path.parent)
            for left in path.parent.glob(f".{path.name}.*{_SUFFIX}"):  # of whoever was killed while writing
                left.unlink(missing_ok=True)

    def mark(self, part: Sequence[PartValue]) -> None:
        """Put the marker into a directory that is complete; one that is there already stays as it is.

        Raises:
            StageStoppedError: it can't be written.
        """
        path = self.root / self.place(part, MARKER)
        with _explained(path):
            self._make(path.parent)
            path.touch()
            _sync(path.parent)

    def _make(self, directory: Path) -> None:
        """Make a directory and those above it, but never the one that the root lies in."""
        if directory.is_dir():
            return
        if directory != self.root:
            self._make(directory.parent)
        directory.mkdir(exist_ok=True)
        _sync(directory.parent)


def _write(path: Path, rows: pl.DataFrame) -> None:
    encoded = io.BytesIO()
    rows.write_parquet(encoded)
    attempt = path.with_name(f".{path.name}.{uuid4().hex}{_SUFFIX}")
    with attempt.open("xb") as file:
        file.write(encoded.getbuffer())
        file.flush()
        os.fsync(file.fileno())
    try:
        attempt.replace(path)
    except FileNotFoundError:
        if not path.exists():  # else another has put it there, and cleared away what was left
            raise


def _sync(directory: Path) -> None:
    """Bring a directory's entries to the disk."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except StateError:  # of the rows: some of these errors are of the operating system, too
        raise
    except OSError as error:
        raise StageStoppedError(
            f"{path} can't be written: {error.strerror}; nothing is lost: mend that, and start the stage again"
        ) from error
