"""Names of everything in a broker's data directory, in one place."""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["LOG_DIR_NAME", "Layout"]

LOG_DIR_NAME = "kafka"
"""Kafka's `log.dirs`, relative to the data directory (where the JVM runs): that setting is a
list with commas, which a path may contain; and a moved data directory still works."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths in the data directory of one broker.

    Attributes:
        root: The data directory, absolute.
    """

    root: Path

    @property
    def state(self) -> Path:
        """Who runs: process, ports, start time."""
        return self.root / "broker.json"

    @property
    def lock(self) -> Path:
        """Held while a broker is started or stopped."""
        return self.root / "broker.lock"

    @property
    def properties(self) -> Path:
        """The broker's settings, written at every start."""
        return self.root / "server.properties"

    @property
    def controller_properties(self) -> Path:
        """Settings of the controller that runs alone after a crash."""
        return self.root / "controller.properties"

    @property
    def logging(self) -> Path:
        """The broker's log configuration, written at every start."""
        return self.root / "log4j2.properties"

    @property
    def log(self) -> Path:
        """Kafka's log."""
        return self.root / "broker.log"

    @property
    def jvm_log(self) -> Path:
        """What the JVM itself prints: normally nothing."""
        return self.root / "jvm.log"

    @property
    def temporary(self) -> Path:
        """The JVM's temporary files (unpacked native libraries), emptied at every start."""
        return self.root / "tmp"

    @property
    def formatted(self) -> Path:
        """Exists once Kafka's storage is formatted."""
        return self.root / LOG_DIR_NAME / "meta.properties"

    @property
    def metadata(self) -> Path:
        """The controller's log; exists since the first run."""
        return self.root / LOG_DIR_NAME / "__cluster_metadata-0"

    @property
    def clean(self) -> Path:
        """Kafka's sign that the last run was stopped cleanly; gone once the next one has begun."""
        return self.root / LOG_DIR_NAME / ".kafka_cleanshutdown"
