"""A class-data archive of the broker: halves the processor time of every start.

Java can keep the classes of a program in a file, loaded and checked (JEP 350, "Dynamic CDS
Archives"). It is made once per user, Kafka version and Java runtime, by starting a broker for
the purpose in a temporary directory, and lies beside the jars. Java ignores an archive that
doesn't fit, so it can make a start slower but not wrong.
"""

import contextlib
import hashlib
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from towpath.broker import startup
from towpath.broker.errors import BrokerError
from towpath.broker.layout import Layout
from towpath.jars import Java, locked

__all__ = ["archive_flags"]

_DUMP_DEADLINE = 180.0
"""Seconds for the JVM to write the archive (48 MB) at its end: four are usual, twenty on a busy machine."""

_LOCK_DEADLINE = startup.READY_DEADLINE + _DUMP_DEADLINE
_DIGITS = 12
_HEAP = "256m"


def archive_flags(java: Java, jars: Path, notify: Callable[[str], None] | None = None) -> tuple[str, ...]:
    """Gives the JVM flags that use the archive, making it if needed; none if it can't be made.

    Args:
        java: The runtime.
        jars: Directory of the broker's jars.
        notify: Called with a line of text before it is made.
    """
    build = hashlib.sha256(java.build.encode()).hexdigest()[:_DIGITS]
    archive = jars / f"classes-{build}.jsa"
    given_up = archive.with_suffix(".failed")
    if not archive.exists() and not given_up.exists():
        with contextlib.suppress(OSError), locked(archive.with_suffix(".lock"), _LOCK_DEADLINE):
            if not archive.exists() and not given_up.exists():
                _make(java, jars, archive, given_up, notify)
    return ("-Xshare:auto", f"-XX:SharedArchiveFile={archive}") if archive.exists() else ()


def _make(java: Java, jars: Path, archive: Path, given_up: Path, notify: Callable[[str], None] | None) -> None:
    if notify is not None:
        notify("preparing a class archive for quick starts of the broker (once, about ten seconds)")
    with tempfile.TemporaryDirectory(prefix="archive-", dir=jars) as directory:
        made = Path(directory) / archive.name
        try:
            _rehearse(java, jars, Layout(Path(directory)), made)
            made.rename(archive)
        except FileNotFoundError as error:
            # A JVM that ended without writing it never will: not tried again.
            given_up.write_text(f"{java.build}\n{error}\n", encoding="utf-8")
        except (BrokerError, OSError, subprocess.TimeoutExpired) as error:
            # A start without archive works as well, only slower; perhaps the next one has more luck.
            if notify is not None:
                notify(f"no class archive this time: {error}")


def _rehearse(java: Java, jars: Path, layout: Layout, archive: Path) -> None:
    flags = (f"-XX:ArchiveClassesAtExit={archive}",)
    plan = startup.Plan(layout, java, jars, _HEAP, {}, flags, tied=True)
    child = startup.launch_ready(plan, *startup.choose_ports(0, None))
    try:
        child.send_signal(signal.SIGTERM)
        child.wait(_DUMP_DEADLINE)
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
