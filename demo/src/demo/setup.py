"""``python -m demo.setup``: what the first run would otherwise fetch in the middle of things: Java check and jars."""

from __future__ import annotations

import sys

from loadgen.jars import CONNECTOR_JARS, SPARK_VERSION
from towpath.broker import kafka_jars
from towpath.jars import JarsError, ensure_jars, find_java


def fetch() -> None:
    """Check Java, and fetch the jars of Kafka and of Spark's Kafka connector into the per-user cache.

    Raises:
        JarsError: no Java 17, or jars that can't be had.
    """
    find_java()
    kafka_jars()
    ensure_jars(CONNECTOR_JARS, f"spark-kafka-{SPARK_VERSION}", transitive=False)


if __name__ == "__main__":
    try:
        fetch()
    except JarsError as error:
        sys.exit(f"error: {error}")
