"""Removes from a container's environment what nothing in it uses: slim.py ENVIRONMENT [PATTERN…].

Tests, what is there for compilers and type checkers, symbol tables of native libraries; and of Spark, Arrow and NumPy
the parts that no process here needs. Patterns are relative to ``site-packages``. A package that is not installed is no
error; a pattern that fits nothing although its package is there has become wrong, and is.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

TESTS = ("tests", "testdata")
"""Names of directories."""

FOR_BUILDING = frozenset({".a", ".c", ".cpp", ".h", ".hpp", ".pxd", ".pxi", ".pyi", ".pyx"})
"""Suffixes of files that compilers and type checkers read."""

NUMPY = (
    "numpy/_core/_*_tests.*.so",
    "numpy/_core/_simd.*.so",  # tests of its own
    "numpy/distutils",  # building
    "numpy/f2py",
)

KUBERNETES = ("kubernetes/aio",)

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

WITH_SYMBOLS = (
    "_polars_runtime_32/*.so",
    "cryptography/**/*.so",
    "fastavro/*.so",
    "fontTools/**/*.so",
    "pyarrow/*.so*",
    "rocksdict/*.so",
)
"""Native libraries with large symbol tables. Not those of wheels with a directory ``….libs``: these were changed after
linking, and what ``strip`` makes of such a file can't be loaded."""

ALL_BUT = {
    "pygments/lexers/**/*.py*": {"__init__", "_mapping", "python", "special"},  # colours of programs in other languages
    "kubernetes/client/api/**/*.py*": {"__init__", "apps_v1_api"},  # of the API, StatefulSets are asked for alone
}
"""Modules of which only some are needed: pattern → those that stay."""


def main(environment: str, *more: str) -> None:
    """Make an environment smaller, and say by how much.

    Args:
        environment: its directory.
        more: patterns of what this one does not need.

    Raises:
        SystemExit: a pattern fits nothing any more.
    """
    packages = site_packages(Path(environment))
    before = size_of(packages)
    for path in unused(packages, more):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    strip(packages)
    sys.stdout.write(f"{packages}: {before >> 20} MiB, now {size_of(packages) >> 20}\n")


def site_packages(environment: Path) -> Path:
    """Where an environment has its packages."""
    (found,) = environment.glob("lib/python3.*/site-packages")
    return found


def unused(packages: Path, more: Sequence[str] = ()) -> Iterator[Path]:
    """Files and directories that are not needed.

    Raises:
        SystemExit: a pattern fits nothing although its package is there.
    """
    for pattern in (*NUMPY, *KUBERNETES, *ARROW, *SPARK, *more):
        yield from fitting(packages, pattern)
    for pattern, kept in ALL_BUT.items():
        yield from (path for path in fitting(packages, pattern) if path.stem.partition(".")[0] not in kept)
    for path in sorted(packages.rglob("*")):
        if path.name in TESTS if path.is_dir() else path.suffix in FOR_BUILDING:
            yield path


def fitting(packages: Path, pattern: str) -> list[Path]:
    """What fits a pattern; nothing where its package is not installed.

    Raises:
        SystemExit: the package is there, and nothing fits.
    """
    found = sorted(packages.glob(pattern))
    if not found and (packages / pattern.partition("/")[0]).is_dir():
        raise SystemExit(f"error: nothing in {packages} fits {pattern}: correct the patterns in {__file__}")
    return found


def strip(packages: Path) -> None:
    """Remove symbol tables and debugging information, which loading a library does not need."""
    for pattern in WITH_SYMBOLS:
        for path in fitting(packages, pattern):
            subprocess.run(["strip", "--strip-unneeded", str(path)], check=True)  # noqa: S603, S607


def size_of(directory: Path) -> int:
    """Bytes of all files in a directory."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


if __name__ == "__main__":
    main(*sys.argv[1:])
