"""A Spark session for this package's jobs: quiet, bounded, in UTC, and leaving nothing in the working directory."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from loadgen.errors import JobError
from loadgen.jars import connector_conf
from loadgen.java import require_java
from statemgr.kafka.java import SPARK_SECRETS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SessionSettings", "session_conf", "start_session", "stop_session", "user_cache_dir"]

DEFAULT_MEMORY_MB = 1024
"""Heap of the one JVM. Measured need: 350 MB for the paced load, 600 MB for the oracle over 3 M events."""

SOCKET_BUFFER_BYTES = 8
"""Buffer of the socket between a Python worker and the JVM, practically none; Spark's minimum is 5. What lies in
that buffer waits for later rows to push it out: at 20 events/s the default of 64 KiB made rows 1.7 s late, at
10 k events/s p50/p99 were 16/901 ms, with 4 KiB 6/13 ms, with 8 bytes 3/8 ms. Large batches bypass it."""

JVM_END_S = 10.0
"""For the JVM to run its shutdown hooks, 0.3 s; then it is killed."""

LOG4J2 = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.file.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss.SSS} %p %c{1}: %m%n%ex
logger.kafka.name = org.apache.kafka
logger.kafka.level = error
logger.adminconfig.name = org.apache.kafka.clients.admin.AdminClientConfig
logger.adminconfig.level = error
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What differs between the sessions of the jobs.

    Attributes:
        app: Name of the application.
        cores: Threads of the local executor.
        memory_mb: Heap of the JVM in MiB.
        shuffle_partitions: Partitions after a shuffle; few, since each costs a task per trigger.
        work_dir: Directory for logs, temporary files and the warehouse; a temporary one, removed at exit, if None.
        jars: The connector's jars, if the caller has them already.
        jvm_options: Further options of the JVM.
        extra: Further Spark settings; they win over ours.
    """

    app: str = "towpath-load"
    cores: int = 2
    memory_mb: int = DEFAULT_MEMORY_MB
    shuffle_partitions: int = 2
    work_dir: Path | None = None
    jars: Sequence[Path] = ()
    jvm_options: Sequence[str] = ()
    extra: Mapping[str, str] = field(default_factory=dict)


def user_cache_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Per-user cache directory of this package (XDG rules)."""
    environ = os.environ if environ is None else environ
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "towpath-loadgen"


def session_conf(settings: SessionSettings, work_dir: Path) -> dict[str, str]:
    """The Spark settings of a session.

    Args:
        settings: What differs between jobs.
        work_dir: Directory for everything that the session writes.

    Returns:
        Setting → value.
    """
    jvm_options = [
        f"-Dlog4j2.configurationFile={(work_dir / 'log4j2.properties').as_uri()}",
        "-Duser.timezone=UTC",
        f"-Djava.io.tmpdir={work_dir}",
        "-XX:-UsePerfData",
        *settings.jvm_options,
    ]
    conf = {
        "spark.master": f"local[{settings.cores}]",
        "spark.app.name": settings.app,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": f"{settings.memory_mb}m",
        "spark.driver.extraJavaOptions": " ".join(jvm_options),
        "spark.local.dir": str(work_dir),
        "spark.sql.warehouse.dir": str(work_dir / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
        "spark.sql.adaptive.coalescePartitions.initialPartitionNum": str(settings.shuffle_partitions),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.streaming.stopTimeout": "20s",
        "spark.sql.execution.pandas.udf.buffer.size": str(SOCKET_BUFFER_BYTES),
        "spark.python.worker.reuse": "true",
        "spark.redaction.regex": SPARK_SECRETS,
    }
    conf.update({"spark.jars": ",".join(str(path) for path in settings.jars)} if settings.jars else {})
    conf.update(settings.extra)
    return conf


def _work_dir(settings: SessionSettings) -> Path:
    if settings.work_dir is None:
        made = Path(tempfile.mkdtemp(prefix="towpath-spark-"))
        atexit.register(shutil.rmtree, made, ignore_errors=True)
        return made
    made = settings.work_dir.absolute()
    made.mkdir(parents=True, exist_ok=True)
    return made


def start_session(settings: SessionSettings | None = None) -> SparkSession:
    """Starts Spark in a JVM of its own; what the JVM prints goes to `spark.log` in the work directory.

    Args:
        settings: What differs between jobs.

    Returns:
        The session; `stop()` ends it. The JVM ends with this process, however that ends.

    Raises:
        JavaError: There is no Java, or it is too old.
        JobError: The JVM did not come up; the text names its log.
    """
    settings = settings or SessionSettings()
    require_java()
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    work_dir = _work_dir(settings)
    (work_dir / "log4j2.properties").write_text(LOG4J2, encoding="utf-8")
    conf = session_conf(settings, work_dir)
    if not settings.jars:
        conf = connector_conf(user_cache_dir()) | conf
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    log = work_dir / "spark.log"
    spark_conf = SparkConf(loadDefaults=False).setAll(list(conf.items()))
    with log.open("ab") as out:
        try:
            gateway = launch_gateway(  # type: ignore[no-untyped-call]
                spark_conf, popen_kwargs={"stdout": out, "stderr": out}
            )
            context = SparkContext(conf=spark_conf, gateway=gateway)
        except PySparkException as error:
            raise JobError(f"Spark's JVM did not start ({error}); see the end of {log}") from error
    # What it would print as JSON with the JVM's stack is in the exception as well.
    for name in ("SQLQueryContextLogger", "py4j"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return SparkSession(context)


def stop_session(spark: SparkSession) -> None:
    """Stops a session and waits until its JVM has ended, so that nothing is left behind.

    Args:
        spark: A session that `start_session` made.
    """
    from pyspark import SparkContext

    gateway = SparkContext._gateway  # noqa: SLF001 - pyspark keeps the process that it started nowhere else
    spark.stop()
    # pyspark would give a later session this gateway, whose JVM is gone.
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return
    gateway.shutdown()
    process.stdin.close()
    try:
        process.wait(JVM_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
