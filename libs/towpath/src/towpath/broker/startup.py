"""The steps of a start: room, ports, files, JVM, readiness; and what to say when one fails."""

import errno
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException

from towpath.broker import jvm
from towpath.broker.errors import (
    BrokerDeadlineError,
    BrokerError,
    BrokerStartError,
    DataDirError,
    DiskFullError,
    PortTakenError,
)
from towpath.broker.fencing import crashed, fence_crashed
from towpath.broker.layout import Layout
from towpath.broker.logtail import log_size, log_tail, says_disk_full, says_port_taken
from towpath.broker.ports import HOST, check_port, free_port, is_port_free
from towpath.broker.ready import answers, create_internal_topics
from towpath.broker.settings import broker_settings, controller_settings, logging_settings, write_properties
from towpath.broker.state import BrokerState
from towpath.jars import Java

__all__ = ["Plan", "check_space", "choose_ports", "data_dir_error", "launch_ready"]

READY_DEADLINE = 60.0
"""Seconds until a started broker must answer: two to five are usual, and a restart after a
crash replays its logs; sixty bear a machine that is busy with everything else."""

MINIMUM_FREE_BYTES = 256 << 20
"""Free disk space that a start asks for: 600 000 events of 270 bytes and their outputs."""

_KILL_SECONDS = 10.0
"""Seconds for the system to remove a killed process."""

_POLL_SECONDS = 0.02
"""Pause between two looks at a starting broker: a hundredth of what a start takes."""

_ANSWER_SECONDS = 2.0
"""Seconds for one metadata call on the loopback interface: a few milliseconds are usual."""

_CREATE_SECONDS = 30.0
"""Seconds for creating sixteen partitions: 0.2 are usual, a few on a busy machine."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one start needs to know.

    Attributes:
        layout: The data directory.
        java: The runtime.
        jars: Directory of the broker's jars.
        heap: Bound of its heap.
        settings: Broker properties beyond Towpath's own.
        flags: JVM flags beyond those of `towpath.broker.jvm`.
        tied: Whether the broker ends with the thread that starts it (on Linux).
    """

    layout: Layout
    java: Java
    jars: Path
    heap: str
    settings: Mapping[str, str]
    flags: Sequence[str] = ()
    tied: bool = False


def choose_ports(requested: int, last: BrokerState | None) -> tuple[int, int]:
    """Chooses the ports of the clients' and the controller's listener.

    Args:
        requested: The clients' port, or 0 for the last one if it is free, else any.
        last: State of the last run, if there was one.

    Raises:
        PortTakenError: If the requested port can't be used.
    """
    if requested:
        check_port(requested)
        port = requested
    else:
        port = last.port if last is not None and is_port_free(last.port) else free_port()
    if last is not None and last.controller_port != port and is_port_free(last.controller_port):
        return port, last.controller_port
    return port, free_port({port})


def check_space(directory: Path) -> None:
    """Checks that a broker would have room for some data.

    Raises:
        DiskFullError: If not.
    """
    if shutil.disk_usage(directory).free < MINIMUM_FREE_BYTES:
        raise _disk_full(directory)


def launch_ready(plan: Plan, port: int, controller_port: int) -> subprocess.Popen[bytes]:
    """Starts the broker's JVM and waits until it serves clients; on any failure none is left.

    Raises:
        PortTakenError: If another program took one of the ports meanwhile.
        DiskFullError: If the disk is full.
        BrokerStartError: If the JVM ended.
        BrokerDeadlineError: If it isn't ready within `READY_DEADLINE`.
    """
    layout = plan.layout
    try:
        settings = broker_settings(port, controller_port, plan.settings)
        write_properties(layout.properties, settings)
        write_properties(layout.logging, logging_settings(layout.log.name))
        # An archive that is being made is for the broker's own JVM alone.
        shared = [flag for flag in plan.flags if "ArchiveClassesAtExit" not in flag]
        jvm.format_storage(plan.java, plan.jars, layout, shared)
        if crashed(layout):
            write_properties(layout.controller_properties, controller_settings(controller_port, plan.settings))
            alone = jvm.controller_command(plan.java, plan.jars, layout, shared)
            fence_crashed(layout, alone, time.monotonic() + READY_DEADLINE, tied=plan.tied)
        since = log_size(layout.log)
        command = jvm.broker_command(plan.java, plan.jars, layout, plan.heap, plan.flags)
        child = jvm.launch(command, layout, tied=plan.tied)
    except OSError as error:
        raise data_dir_error(layout.root, error) from error
    try:
        end = time.monotonic() + READY_DEADLINE
        _wait_answer(child, layout, port, since, end)
        _create_internal_topics(layout, port, settings)
        _wait_answer(child, layout, port, since, end)
    except BaseException:
        child.kill()
        child.wait(_KILL_SECONDS)
        raise
    return child


def data_dir_error(directory: Path, error: OSError) -> BrokerError:
    """Says what an error of the file system means for the data directory."""
    if error.errno == errno.ENOSPC:
        return _disk_full(directory)
    return DataDirError(
        f"the data directory {directory} can't be used ({error.strerror or error}): "
        "make it writable, or name another one"
    )


def _wait_answer(child: subprocess.Popen[bytes], layout: Layout, port: int, since: int, end: float) -> None:
    while not answers(port, _ANSWER_SECONDS):
        if child.poll() is not None:
            raise _start_error(layout, child.returncode, since)
        if time.monotonic() >= end:
            raise BrokerDeadlineError(
                f"the broker in {layout.root} isn't ready after {READY_DEADLINE:.0f} s: is the machine "
                f"overloaded, or the heap too small? Its log ends:\n{_tail(layout, since)}"
            )
        time.sleep(_POLL_SECONDS)
    if child.poll() is not None:
        # Someone else's broker answers on that port.
        raise _start_error(layout, child.returncode, since)


def _create_internal_topics(layout: Layout, port: int, settings: Mapping[str, str]) -> None:
    try:
        create_internal_topics(port, settings, _CREATE_SECONDS)
    except KafkaException as error:
        raise BrokerStartError(
            f"the broker in {layout.root} didn't create its internal topics ({error.args[0].str()}): see {layout.log}"
        ) from error


def _start_error(layout: Layout, status: int, since: int) -> BrokerError:
    tail = _tail(layout, since)
    if says_port_taken(tail):
        return PortTakenError(
            f"another program took a port of the broker in {layout.root} on {HOST}: "
            "end it, name another port, or 0 for any free one"
        )
    if says_disk_full(tail):
        return _disk_full(layout.root)
    return BrokerStartError(
        f"the broker in {layout.root} ended with status {status} before it was ready. "
        f"The ends of its logs, {layout.jvm_log.name} and {layout.log.name}:\n{tail}"
    )


def _tail(layout: Layout, since: int) -> str:
    return "\n".join(filter(None, (log_tail(layout.jvm_log), log_tail(layout.log, since))))


def _disk_full(directory: Path) -> DiskFullError:
    return DiskFullError(
        f"{os.strerror(errno.ENOSPC)} for the broker's data in {directory}: "
        f"{MINIMUM_FREE_BYTES >> 20} MiB must be free; free some, or name a directory on another disk"
    )
