"""Removes from a container's environment what nothing in it uses: slim.py ENVIRONMENT.

Tests, what is there for compilers and type checkers, symbol tables of native libraries; and of Spark and Arrow the
parts that no job here needs. Patterns are relative to ``site-packages``. A package that is not installed is no error;
a pattern that fits nothing although its package is there has become wrong, and is.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

TESTS = ("tests", "testdata")
"""Names of directories."""

FOR_BUILDING = frozenset({".a", ".c", ".cpp", ".h", ".hpp", ".pxd", ".pxi", ".pyi", ".pyx"})
"""Suffixes of files that compilers and type checkers read."""

ARROW = (
    "pyarrow/include",  # headers
    "pyarrow/*flight*",  # Arrow over the network
    "pyarrow/*s3*",  # files in S3
    "pyarrow/libarrow_python*.so",  # twice the same library: it is loaded by the name that ends in its version
    "pyarrow/libarrow_python*.so.*.*.*",
)

SPARK = (
    "pyspark/data",
    "pyspark/examples",
    "pyspark/sbin",
    # Tables of Hive
    *(f"pyspark/jars/{name}-*.jar" for name in ("HikariCP", "ST4", "antlr-runtime", "datanucleus-*", "derby*")),
    *(f"pyspark/jars/hive-{name}-*.jar" for name in ("beeline", "cli", "common", "exec", "jdbc", "metastore", "serde")),
    *(f"pyspark/jars/{name}-*.jar" for name in ("hive-service-rpc", "hive-shims*", "javax.jdo", "jdo-api", "jpam")),
    *(f"pyspark/jars/{name}-*.jar" for name in ("libfb303", "libthrift", "spark-hive*", "super-csv")),
    # Machine learning and graphs
    *(f"pyspark/jars/{name}-*.jar" for name in ("JLargeArrays", "JTransforms", "algebra_*", "arpack*", "blas")),
    *(f"pyspark/jars/{name}-*.jar" for name in ("breeze*", "cats-kernel_*", "lapack", "spark-graphx_*")),
    *(f"pyspark/jars/{name}-*.jar" for name in ("spark-mllib*", "spire*")),
    # Clusters: a session runs in its own process
    *(f"pyspark/jars/{name}-*.jar" for name in ("kubernetes-*", "spark-kubernetes_*", "spark-yarn_*", "vertx-*")),
    *(f"pyspark/jars/{name}-*.jar" for name in ("volcano-*", "zjsonpatch")),
    # Other ways to talk to Spark
    "pyspark/jars/connect-repl",
    *(f"pyspark/jars/{name}-*.jar" for name in ("jline", "scala-compiler", "spark-connect_*", "spark-pipelines_*")),
    "pyspark/jars/spark-repl_*.jar",
    # State of streams in RocksDB: the streams here have no state
    "pyspark/jars/rocksdbjni-*.jar",
    # Systems that no container is
    *(f"pyspark/jars/netty-*-{system}-*.jar" for system in ("osx", "windows")),
)


def main(environment: str) -> None:
    """Make an environment smaller, and say by how much.

    Raises:
        SystemExit: a pattern fits nothing any more.
    """
    packages = site_packages(Path(environment))
    before = size_of(packages)
    for path in unused(packages):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    strip(libraries(packages))
    sys.stdout.write(f"{packages}: {before >> 20} MiB, now {size_of(packages) >> 20}\n")


def site_packages(environment: Path) -> Path:
    """Where an environment has its packages."""
    (found,) = environment.glob("lib/python3.*/site-packages")
    return found


def unused(packages: Path) -> Iterator[Path]:
    """Files and directories that are not needed.

    Raises:
        SystemExit: a pattern fits nothing although its package is there.
    """
    for pattern in (*ARROW, *SPARK):
        if (packages / pattern.partition("/")[0]).is_dir():
            yield from fitting(packages, pattern)
    for path in sorted(packages.rglob("*")):
        if path.name in TESTS if path.is_dir() else path.suffix in FOR_BUILDING:
            yield path


def fitting(packages: Path, pattern: str) -> list[Path]:
    """What fits a pattern.

    Raises:
        SystemExit: nothing does.
    """
    found = sorted(packages.glob(pattern))
    if not found:
        raise SystemExit(f"error: nothing in {packages} fits {pattern}: correct the patterns in {__file__}")
    return found


def libraries(packages: Path) -> Iterator[Path]:
    """Native libraries."""
    return (path for path in packages.rglob("*.so*") if path.is_file() and not path.is_symlink())


def strip(paths: Iterable[Path]) -> None:
    """Remove symbol tables and debugging information, which loading a library does not need."""
    subprocess.run(["strip", "--strip-unneeded", *map(str, paths)], check=True)  # noqa: S603, S607


def size_of(directory: Path) -> int:
    """Bytes of all files in a directory."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


if __name__ == "__main__":
    main(*sys.argv[1:])
