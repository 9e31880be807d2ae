"""Where Spark's Kafka connector comes from.

In this order: the jars are in Spark's own directory (container images put them there), the per-user jar cache of
`towpath` where that library is installed, or Spark's own resolver with a cache of its own.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

from loadgen.errors import JarsError

__all__ = ["CONNECTOR_JARS", "connector_conf", "connector_installed", "spark_jars_dir"]

SPARK_VERSION = "4.2.0"
CONNECTOR_JARS = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_VERSION}",
    f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{SPARK_VERSION}",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
"""Maven coordinates of the connector and of what it needs beyond Spark's own jars. Its version must be that of
pyspark, and the last two are the ones it was built with."""


def spark_jars_dir() -> Path:
    """Directory of the jars that every Spark session has on its class path.

    Raises:
        JarsError: pyspark is not installed.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JarsError("pyspark is not installed; install the package loadgen with its dependencies")
    return Path(spec.origin).parent / "jars"


def connector_installed(jars: Path) -> bool:
    """Whether the Kafka connector lies among the jars of a directory."""
    return any(jars.glob("spark-sql-kafka-0-10_*.jar"))


def connector_conf(cache: Path) -> dict[str, str]:
    """Spark settings that make the Kafka connector available.

    Args:
        cache: Directory for Spark's resolver, should it be needed. It must not be a half-filled Maven
            repository: descriptions without jars make the resolver fail.

    Returns:
        Settings to add to the session's; empty if the jars are in Spark's own directory.

    Raises:
        JarsError: The jars are nowhere and can't be downloaded.
    """
    if connector_installed(spark_jars_dir()):
        return {}
    cached = _towpath_cache()
    if cached is not None:
        return {"spark.jars": ",".join(str(path) for path in sorted(cached.glob("*.jar")))}
    return {"spark.jars.packages": CONNECTOR_JARS[0], "spark.jars.ivy": str(cache / "ivy")}


def _towpath_cache() -> Path | None:
    """Directory of the cached connector; None without the library `towpath`, which is optional here."""
    if importlib.util.find_spec("towpath") is None or importlib.util.find_spec("towpath.jars") is None:
        return None
    jars = importlib.import_module("towpath.jars")
    try:
        found: Path = jars.ensure_jars(CONNECTOR_JARS, f"spark-kafka-{SPARK_VERSION}", transitive=False)
    except jars.JarsError as error:
        raise JarsError(str(error)) from error
    return found
