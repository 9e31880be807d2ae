"""``python -m loadgen.install_connector``: puts Spark's Kafka connector among Spark's own jars, for images.

Spark's own resolver fetches it once; a session that finds it there needs no network at run time.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from loadgen.jars import CONNECTOR_JARS, connector_installed, spark_jars_dir

RESOLVED_DIR = "jars"
"""Where Spark's resolver puts what it fetched, below its own directory."""


def install(target: Path) -> list[Path]:
    """Fetch the connector and copy what Spark does not have yet into ``target``.

    Args:
        target: Spark's directory of jars.

    Returns:
        The jars copied.
    """
    if connector_installed(target):
        return []
    with tempfile.TemporaryDirectory(prefix="connector-") as made:
        _resolve(Path(made))
        wanted = {coordinate.split(":")[1] for coordinate in CONNECTOR_JARS}
        found = sorted((Path(made) / RESOLVED_DIR).glob("*.jar"))
        return [
            Path(shutil.copy(jar, target / jar.name.partition("_")[2]))
            for jar in found
            if any(f"_{artifact}-" in jar.name for artifact in wanted)
        ]


def _resolve(cache: Path) -> None:
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars.packages", CONNECTOR_JARS[0])
        .config("spark.jars.ivy", str(cache))
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    session.stop()


if __name__ == "__main__":
    for jar in install(spark_jars_dir()):
        sys.stdout.write(f"{jar}\n")
