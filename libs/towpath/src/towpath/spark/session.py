"""A Spark session for one query: Java, PySpark and the Kafka connector are looked for, and what is missing is named."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from statemgr.kafka.java import SPARK_SECRETS
from towpath.jars import ensure_jars, find_java
from towpath.spark.errors import SparkFailedError, SparkMissingError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_VERSION = "4.2.0"
CONNECTOR = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_VERSION}",
    f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{SPARK_VERSION}",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
"""Maven coordinates of the Kafka connector and of what it needs beyond Spark's own jars; of PySpark's version."""

DEFAULT_MASTER = "local[*]"

_LOGGING = """\
status = error
rootLogger.level = error
rootLogger.appenderRef.err.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""
"""Spark's own default writes warnings that nobody can act on."""

REQUIRED: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
}
"""Times are UTC, and names of columns are what they are, as services have it."""

_DEFAULTS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.streaming.stopTimeout": "20s",
    "spark.redaction.regex": SPARK_SECRETS,
}


@dataclass(frozen=True)
class SessionSettings:
    """What a session is made with.

    Attributes:
        app: name of the application.
        master: where Spark runs, such as ``local[2]`` or ``spark://host:7077``.
        conf: further settings of Spark, which win over ours.
    """

    app: str
    master: str = DEFAULT_MASTER
    conf: Mapping[str, str] = field(default_factory=dict)


def check_installed() -> None:
    """Look for PySpark and Java.

    Raises:
        SparkMissingError: PySpark is not there.
        JavaMissingError, JavaTooOldError: see :func:`towpath.jars.find_java`.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise SparkMissingError(
            f"the Spark engine needs PySpark, which is not installed: pip install 'towpath[spark]' "
            f"(or pyspark=={SPARK_VERSION})"
        )
    find_java()


@contextmanager
def running_session(settings: SessionSettings) -> Iterator[SparkSession]:
    """A session, stopped at the end.

    Raises:
        SparkMissingError, JarsError: PySpark, Java or the jars of the Kafka connector are missing.
        SparkFailedError: Spark does not start.
    """
    check_installed()
    jars = _connector_jars()
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name in ("SQLQueryContextLogger", "py4j"):  # what they print is in the exception as well
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="towpath-spark-") as work:
        builder = SparkSession.builder.master(settings.master).appName(settings.app)
        for name, value in session_conf(settings, Path(work), jars).items():
            builder = builder.config(name, value)
        try:
            session = builder.getOrCreate()
        except (PySparkException, RuntimeError) as error:
            raise SparkFailedError(f"Spark at {settings.master} does not start: {first_line(error)}") from error
        try:
            yield session
        finally:
            session.stop()


def session_conf(settings: SessionSettings, work: Path, jars: Sequence[Path]) -> dict[str, str]:
    """Spark's settings.

    Args:
        settings: of the session.
        work: directory for its files, which ends with it.
        jars: of the Kafka connector; none if Spark has them already.
    """
    log4j = work / "log4j2.properties"
    log4j.write_text(_LOGGING, encoding="utf-8")
    conf = {
        **_DEFAULTS,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log4j.as_uri()} -XX:-UsePerfData",
        "spark.sql.warehouse.dir": str(work / "warehouse"),
    }
    if jars:
        conf["spark.jars"] = ",".join(map(str, jars))
    if settings.master.startswith("local"):
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return conf | dict(settings.conf) | dict(REQUIRED)


def first_line(error: BaseException) -> str:
    """What an error of Spark says, without the stacks of its JVM."""
    return (str(error).strip() or type(error).__name__).split("\n", 1)[0]


def _connector_jars() -> list[Path]:
    spec = importlib.util.find_spec("pyspark")
    own = Path(spec.origin).parent / "jars" if spec is not None and spec.origin is not None else Path()
    if any(own.glob("spark-sql-kafka-0-10_*.jar")):
        return []
    return sorted(ensure_jars(CONNECTOR, f"spark-kafka-{SPARK_VERSION}", transitive=False).glob("*.jar"))
