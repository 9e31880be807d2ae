"""What is in a directory of Parquet files, as a reader finds it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

from towpath.operators.parquet_files import MARKER


def files_in(root: Path) -> list[str]:
    """Paths of all files below a directory, markers and temporary ones apart."""
    return [path for path in everything_in(root) if not Path(path).name.startswith((".", "_"))]


def markers_in(root: Path) -> list[str]:
    """Directories with a marker."""
    return [str(Path(path).parent) for path in everything_in(root) if Path(path).name == MARKER]


def everything_in(root: Path) -> list[str]:
    """Paths of all files below a directory."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def rows_in(root: Path) -> Counter[tuple[Any, ...]]:
    """Rows of all files, those of their directories included, as a multiset; by name of column."""
    rows: Counter[tuple[Any, ...]] = Counter()
    for path in files_in(root):
        parts = dict(name.split("=", 1) for name in Path(path).parts[:-1])
        for row in pl.read_parquet(root / path, hive_partitioning=False).to_dicts():
            rows[tuple(sorted({**parts, **row}.items()))] += 1
    return rows
