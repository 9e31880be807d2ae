"""The two JVMs of a broker: one formats its storage once, one runs it."""

import base64
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from towpath.broker.errors import BrokerDeadlineError, BrokerStartError
from towpath.broker.layout import Layout
from towpath.jars import Java, ensure_jars

__all__ = [
    "KAFKA_VERSION",
    "SHORT_LIVED_FLAGS",
    "broker_command",
    "cluster_id",
    "controller_command",
    "format_storage",
    "kafka_jars",
    "launch",
]

KAFKA_VERSION = "4.4.0"
"""Version of the broker (its Scala version is 2.13)."""

_COORDINATES = (
    f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
    # Binds SLF4J 1.7, which Kafka uses, to the Log4j that comes with Kafka: same version as that one.
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.5",
)

_FORMAT_DEADLINE = 60.0
"""Seconds for formatting: takes one; sixty bear a machine that is busy with everything else."""

_COMMON_FLAGS = ("-XX:-UsePerfData", "-Djava.awt.headless=true", "-Dfile.encoding=UTF-8", "-Xlog:cds=off")
"""No shared performance files in the system's temporary directory, which a killed JVM leaves; no
remarks on classes that a class archive can't hold."""

_FORMAT_FLAGS = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""A JVM that lives a second: the quick compiler alone, the collector without threads."""

_BROKER_FLAGS = ("-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:+ExitOnOutOfMemoryError")
"""G1 starts as quickly as the serial collector and, on two cores, took 2.0 processor seconds for a
million records of 270 bytes where that took 3.5."""

SHORT_LIVED_FLAGS = ("-XX:TieredStopAtLevel=1",)
"""For a broker that lives minutes: the quick compiler alone. On two cores the optimising one took 40 % of a core
for the first two minutes, which a pipeline beside it needs more; later its code is the quicker one."""


def kafka_jars(notify: Callable[[str], None] | None = None) -> Path:
    """Gives the directory of the broker's jars, downloading them once per user.

    Raises:
        JarsError: If they can't be had.
    """
    return ensure_jars(_COORDINATES, f"kafka-{KAFKA_VERSION}", notify=notify)


def cluster_id() -> str:
    """Makes a cluster id: 16 random bytes in URL-safe Base64, which doesn't begin with a dash."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def format_storage(java: Java, jars: Path, layout: Layout, flags: Sequence[str] = ()) -> None:
    """Formats Kafka's storage, unless that has been done.

    Raises:
        BrokerStartError: If Kafka refuses; its words are in the text.
        BrokerDeadlineError: If it takes too long.
    """
    if layout.formatted.exists():
        return
    command = _command(java, jars, layout, (*_FORMAT_FLAGS, *flags), "kafka.tools.StorageTool")
    command += ["format", "--cluster-id", cluster_id(), "--config", layout.properties.name]
    try:
        done = subprocess.run(  # noqa: S603 - the user's own java, arguments of our own, no shell
            command, cwd=layout.root, capture_output=True, text=True, errors="replace",
            stdin=subprocess.DEVNULL, timeout=_FORMAT_DEADLINE, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise BrokerDeadlineError(
            f"formatting {layout.root} took over {_FORMAT_DEADLINE:.0f} s: is the machine overloaded?"
        ) from error
    if done.returncode != 0:
        raise BrokerStartError(f"Kafka refused to format {layout.root}:\n{(done.stderr + done.stdout).strip()}")


def broker_command(java: Java, jars: Path, layout: Layout, heap: str, flags: Sequence[str] = ()) -> list[str]:
    """Gives the command line of the broker, to be run in its data directory."""
    all_flags = (f"-Xmx{heap}", *_BROKER_FLAGS, *flags)
    return [*_command(java, jars, layout, all_flags, "kafka.Kafka"), layout.properties.name]


def controller_command(java: Java, jars: Path, layout: Layout, flags: Sequence[str] = ()) -> list[str]:
    """Gives the command line of the controller alone, to be run in the broker's data directory for seconds."""
    all_flags = ("-Xmx128m", *_BROKER_FLAGS, *SHORT_LIVED_FLAGS, *flags)
    return [*_command(java, jars, layout, all_flags, "kafka.Kafka"), layout.controller_properties.name]


def launch(command: Sequence[str], layout: Layout, *, tied: bool) -> subprocess.Popen[bytes]:
    """Starts the broker's JVM in a session of its own, so that Ctrl-C at a terminal isn't for it.

    Args:
        command: What `broker_command` gave.
        layout: The data directory.
        tied: Whether it gets SIGTERM when the calling thread ends (on Linux).
    """
    if tied and sys.platform == "linux":
        command = [sys.executable, "-I", "-S", str(Path(__file__).with_name("tied.py")), str(os.getpid()), *command]
    shutil.rmtree(layout.temporary, ignore_errors=True)
    layout.temporary.mkdir()
    with layout.jvm_log.open("wb") as output:
        return subprocess.Popen(  # noqa: S603 - the user's own java, arguments of our own, no shell
            command, cwd=layout.root, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip


def _command(java: Java, jars: Path, layout: Layout, flags: Sequence[str], main: str) -> list[str]:
    # Relative paths where they are in the data directory, which is the working directory.
    own = (f"-Djava.io.tmpdir={layout.temporary}", f"-Dlog4j2.configurationFile={layout.logging.name}")
    crash = ("-XX:ErrorFile=jvm-crash.log",)
    return [str(java.executable), *flags, *_COMMON_FLAGS, *own, *crash, "-cp", f"{jars}/*", main]
