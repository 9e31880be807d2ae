"""The broker's settings: what Towpath decides, what a caller may change, and their file."""

import re
from collections.abc import Mapping
from pathlib import Path

from towpath.broker.errors import BrokerSettingError
from towpath.broker.layout import LOG_DIR_NAME
from towpath.broker.ports import HOST

__all__ = [
    "broker_settings",
    "check_heap",
    "controller_settings",
    "logging_settings",
    "parse_setting",
    "render_properties",
    "write_properties",
]

_HEAP = re.compile(r"([1-9]\d*)([kmg])", re.IGNORECASE)
_UNIT_BYTES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_MINIMUM_HEAP = 128 << 20
"""Smallest heap: an idle broker holds about 60 MB, and the log cleaner's buffer is 32 MB more."""

DEFAULTS: Mapping[str, str] = {
    # Towpath creates topics itself, with checks; a misspelt name must fail instead of appear.
    "auto.create.topics.enable": "false",
    # One node: one copy. Eight partitions are enough for a few dozen groups and transactional
    # ids, and the first use of each topic creates eight logs instead of fifty.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "8",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "8",
    # A group's first member need not wait 3 s for others.
    "group.initial.rebalance.delay.ms": "0",
    # Silence of half a minute (default 9 s): the heartbeat goes to the same process, so silence means that the
    # whole process stood still, and a broker that fences itself then only loses leaders and open transactions.
    # After a crash the controller alone ends the old run's session: see `towpath.broker.fencing`.
    "broker.session.timeout.ms": "30000",
    "broker.heartbeat.interval.ms": "500",
    # 24 bytes a key at 90 % load: 1.2 million keys a pass in 32 MB, where the default of 128 MB
    # would be a quarter of the default heap.
    "log.cleaner.dedupe.buffer.size": str(32 << 20),
}
"""Properties that differ from Kafka's defaults; a caller may change them."""

_OWN = (
    "process.roles", "node.id", "listeners", "advertised.listeners", "listener.security.protocol.map",
    "inter.broker.listener.name", "controller.listener.names", "controller.quorum.voters", "log.dirs",
)  # fmt: skip
_OWN_PREFIXES = ("controller.quorum.bootstrap", "log.dir", "metadata.log.dir", "listener.")

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]*")
_LOG_BYTES = 16 << 20
_LOG_FILES = 2
"""Kafka's log takes at most (2 old + 1 current) x 16 MiB = 48 MiB."""


def broker_settings(port: int, controller_port: int, extra: Mapping[str, str]) -> dict[str, str]:
    """Gives all properties of a single-node broker that is its own controller.

    Args:
        port: Port for clients.
        controller_port: Port of the controller, used by the broker itself only.
        extra: Properties of the caller; they win over `DEFAULTS`.

    Raises:
        BrokerSettingError: If `extra` holds a property that Towpath decides, or a malformed one.
    """
    for key, value in extra.items():
        _check_setting(key, value)
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": LOG_DIR_NAME,
        **DEFAULTS,
        **extra,
    }


def controller_settings(controller_port: int, extra: Mapping[str, str]) -> dict[str, str]:
    """Gives all properties of the same node as a controller alone, which soon fences the broker that it used to be.

    Args:
        controller_port: Port of the controller.
        extra: Properties of the caller.
    """
    of_broker = {"advertised.listeners", "inter.broker.listener.name"}
    settings = broker_settings(0, controller_port, extra)
    return {
        **{key: value for key, value in settings.items() if key not in of_broker},
        "process.roles": "controller",
        "listeners": f"CONTROLLER://{HOST}:{controller_port}",
        "broker.session.timeout.ms": "500",
        "broker.heartbeat.interval.ms": "250",
    }


def logging_settings(log: str) -> dict[str, str]:
    """Gives Log4j's properties: a log file of bounded size, and nothing on the terminal."""
    rolling = {
        "type": "RollingFile", "name": "file", "fileName": log, "filePattern": f"{log}.%i",
        "layout.type": "PatternLayout", "layout.pattern": "%d{ISO8601} %p %m (%c)%n",
        "policies.type": "Policies", "policies.size.type": "SizeBasedTriggeringPolicy",
        "policies.size.size": str(_LOG_BYTES),
        "strategy.type": "DefaultRolloverStrategy", "strategy.max": str(_LOG_FILES),
    }  # fmt: skip
    return {
        "status": "off",
        **{f"appender.file.{key}": value for key, value in rolling.items()},
        "rootLogger.level": "INFO",
        "rootLogger.appenderRef.file.ref": "file",
    }


def render_properties(settings: Mapping[str, str]) -> str:
    """Renders a file in Java's properties format (ISO 8859-1 with escapes), keys in given order."""
    return "".join(f"{_escaped(key, ' =:#!')}={_escaped(value, '')}\n" for key, value in settings.items())


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Writes a file that Java reads."""
    path.write_text(render_properties(settings), encoding="latin-1")


def parse_setting(text: str) -> tuple[str, str]:
    """Reads `key=value` of a command line.

    Raises:
        BrokerSettingError: If it is not of that form.
    """
    key, equals, value = text.partition("=")
    if not equals:
        raise BrokerSettingError(f"{text!r} isn't key=value: write for example num.io.threads=4")
    _check_setting(key.strip(), value.strip())
    return key.strip(), value.strip()


def check_heap(heap: str) -> None:
    """Checks a heap bound such as `512m` or `2g`.

    Raises:
        BrokerSettingError: If it is malformed, or too small for a broker.
    """
    found = _HEAP.fullmatch(heap)
    if found is None:
        raise BrokerSettingError(f"{heap!r} isn't a heap size: write for example 512m or 2g")
    if int(found[1]) * _UNIT_BYTES[found[2].lower()] < _MINIMUM_HEAP:
        raise BrokerSettingError(f"a heap of {heap} is too small: a broker needs {_MINIMUM_HEAP >> 20}m or more")


def _check_setting(key: str, value: str) -> None:
    if not _KEY.fullmatch(key):
        raise BrokerSettingError(f"{key!r} isn't the name of a broker property")
    if key in _OWN or key.startswith(_OWN_PREFIXES):
        raise BrokerSettingError(
            f"{key} can't be set here: a local broker's address, roles and directories are decided by --port and --data"
        )
    if "\0" in value:
        raise BrokerSettingError(f"the value of {key} holds a zero byte")


def _escaped(text: str, special: str) -> str:
    return "".join(_escaped_character(character, special, first=at == 0) for at, character in enumerate(text))


def _escaped_character(character: str, special: str, *, first: bool) -> str:
    named = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}.get(character)
    if named is not None:
        return named
    if character in special or (first and character == " "):
        return f"\\{character}"
    if " " <= character <= "~":
        return character
    # Characters beyond the basic plane are two UTF-16 units in Java.
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
