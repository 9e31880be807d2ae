"""Security settings of librdkafka in the words of Kafka's Java clients, for Spark: the one place that knows both.

One file of properties serves every client of a deployment. Java wants PEM files under other names, and passwords of
SASL within a line of JAAS. What has no counterpart is refused by name: passing over it would connect with less security
than was asked for. Settings that are not about security are each client's own, and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

_PREFIXES = ("security.", "ssl.", "sasl.", "enable.ssl.", "enable.sasl.", "https.")
"""How the names of security settings begin in librdkafka."""

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}

_SAME = ("ssl.key.password", "ssl.keystore.password")
"""Settings that both call the same."""

_HANDLED = frozenset(
    {
        "security.protocol",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.keystore.location",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        *_SAME,
    }
)

_PKCS8 = re.compile("BEGIN (ENCRYPTED )?PRIVATE KEY")

SECRET_NAMES = ("password", "secret", "jaas", "token", "keystore.key")
"""Parts of the names of Java settings whose values no log and no command line may show."""


SPARK_SECRETS = "(?i)access[.]?key|" + "|".join(SECRET_NAMES).replace(".", "[.]")
"""The same for ``spark.redaction.regex``; Spark's own knows neither JAAS nor a key in PEM."""


def is_secret(name: str) -> bool:
    """Whether a Java setting holds a secret."""
    return any(part in name.lower() for part in SECRET_NAMES)


def java_settings(properties: Mapping[str, str], read: Callable[[str], str] | None = None) -> dict[str, str]:
    """The security settings of a Java client.

    Args:
        properties: settings of librdkafka.
        read: gives the text of a file; by default from the disk.

    Returns:
        Settings of Kafka's Java clients; they may hold secrets.

    Raises:
        ValueError: a setting has no counterpart, or a file can't be read; one line that names it, never its value.
    """
    given = {name: value for name, value in properties.items() if name.startswith(_PREFIXES)}
    unknown = sorted(given.keys() - _HANDLED)
    if unknown:
        raise ValueError(
            f"{', '.join(unknown)}: Spark's Kafka client has no such setting; use files of PEM or PKCS#12 for TLS, and "
            "PLAIN or SCRAM for SASL"
        )
    if given.get("enable.ssl.certificate.verification", "true").lower() != "true":
        raise ValueError(
            "enable.ssl.certificate.verification: Spark's Kafka client can't do without; set ssl.ca.location"
        )
    settings = {name: value for name, value in given.items() if name in _SAME}
    if "security.protocol" in given:
        settings["security.protocol"] = given["security.protocol"].upper()
    if "ssl.endpoint.identification.algorithm" in given:
        algorithm = given["ssl.endpoint.identification.algorithm"].lower()
        settings["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    return settings | _stores(given, read or _read) | _sasl(given)


def spark_options(properties: Mapping[str, str], read: Callable[[str], str] | None = None) -> dict[str, str]:
    """The same as options of Spark's Kafka source and sink; errors as of :func:`java_settings`."""
    return {f"kafka.{name}": value for name, value in java_settings(properties, read).items()}


def _stores(given: Mapping[str, str], read: Callable[[str], str]) -> dict[str, str]:
    """Certificates: whose brokers' are trusted, and the client's own."""
    settings: dict[str, str] = {}
    if "ssl.ca.location" in given:
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": given["ssl.ca.location"]}
    if "ssl.keystore.location" in given:
        settings |= {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": given["ssl.keystore.location"]}
    pair = [name for name in ("ssl.certificate.location", "ssl.key.location") if name in given]
    if len(pair) == 1:
        raise ValueError(f"{pair[0]}: a client's certificate and its key belong together; name both files")
    if pair:
        key = read(given["ssl.key.location"])
        if _PKCS8.search(key) is None:
            raise ValueError(
                f"ssl.key.location: Java reads private keys as PKCS#8 only; convert {given['ssl.key.location']} by: "
                "openssl pkcs8 -topk8 -nocrypt"
            )
        settings |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": read(given["ssl.certificate.location"]),
            "ssl.keystore.key": key,
        }
    return settings


def _sasl(given: Mapping[str, str]) -> dict[str, str]:
    """Mechanism, user and password."""
    mechanism = given.get("sasl.mechanism", given.get("sasl.mechanisms"))
    if mechanism is None:
        return {}
    module = _LOGIN_MODULES.get(mechanism.upper())
    if module is None:
        raise ValueError(
            f"sasl.mechanism={mechanism} can't be passed on to Spark: one of {', '.join(_LOGIN_MODULES)} can"
        )
    missing = [name for name in ("sasl.username", "sasl.password") if name not in given]
    if missing:
        raise ValueError(f"{' and '.join(missing)}: missing, and sasl.mechanism={mechanism} needs both")
    user, password = _quoted(given["sasl.username"]), _quoted(given["sasl.password"])
    return {
        "sasl.mechanism": mechanism.upper(),
        "sasl.jaas.config": f"{module} required username={user} password={password};",
    }


def _quoted(text: str) -> str:
    """As JAAS reads it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{file} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not a PEM file") from error
