"""From settings to a schema registry's client; what is wrong is one line, and no line holds a secret."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from statemgr.clock import Clock
from towpath.errors import SettingsError
from towpath.query.plan import Format, StagePlan
from towpath.stage.settings import StageSettings, read_properties

if TYPE_CHECKING:  # only stages that need a registry load its client
    from towpath.formats.registry import Registry

_OF_REGISTRY = (Format.AVRO, Format.PROTOBUF)
_AUTH = "basic.auth.user.info"


def topics_of(plan: StagePlan) -> dict[str, Format]:
    """Topics of a stage whose schemas are in a registry."""
    formats = {item.topic: item.format for item in plan.inputs} | {item.topic: item.format for item in plan.outputs}
    return {topic: form for topic, form in formats.items() if form in _OF_REGISTRY}


def check_registry(plan: StagePlan, settings: StageSettings) -> str | None:
    """The registry's URL, checked; None where no topic of the stage needs one.

    Raises:
        SettingsError: it is missing or wrong, or the client is not installed.
    """
    topics = topics_of(plan)
    if not topics:
        return None
    topic, form = next(iter(topics.items()))
    if settings.schema_registry_url is None:
        raise SettingsError(
            f"topic {topic} is in {form}, with its schemas in a registry: name it by schema_registry_url, for example "
            "-o schema_registry_url=http://127.0.0.1:8081 or TOWPATH_SCHEMA_REGISTRY_URL"
        )
    try:
        importlib.import_module(f"confluent_kafka.schema_registry.{form}")
    except ImportError as error:
        raise SettingsError(
            f"topic {topic} is in {form}, for which {error.name or error} is missing: pip install 'towpath[registry]'"
        ) from error
    return _checked(settings.schema_registry_url)


def registry_for(plan: StagePlan, settings: StageSettings, clock: Clock) -> Registry | None:
    """The registry of a stage, not asked yet; None where no topic of the stage needs one.

    Raises:
        SettingsError: see :func:`check_registry`; or the client refuses its properties.
    """
    url = check_registry(plan, settings)
    if url is None:
        return None
    from confluent_kafka.schema_registry import SchemaRegistryClient

    from towpath.formats.registry import REQUEST_TIMEOUT_S, Registry

    # The client asks once: who needs an answer knows better how long to wait for it.
    properties = {"timeout": REQUEST_TIMEOUT_S, "max.retries": 0, **client_properties(settings), "url": url}
    origin = f" (from {settings.schema_registry_config})" if settings.schema_registry_config else ""
    try:
        return Registry(SchemaRegistryClient(properties), url, clock)
    except OSError as error:
        raise SettingsError(
            f"certificates of the schema registry can't be read: {error.strerror or error}{origin}; see "
            "schema_registry_ca and schema_registry_config"
        ) from error
    except (ValueError, TypeError) as error:
        raise SettingsError(f"schema registry client settings are refused: {error}{origin}") from error


def client_properties(settings: StageSettings) -> dict[str, Any]:
    """Properties of the registry's client, from its file and the settings beside it.

    Raises:
        SettingsError: the file can't be read, or says what a setting says.
    """
    properties: dict[str, Any] = dict(read_properties(settings.schema_registry_config))
    said = {
        "url": ("schema_registry_url", settings.schema_registry_url),
        "ssl.ca.location": ("schema_registry_ca", settings.schema_registry_ca),
        _AUTH: ("schema_registry_auth", settings.schema_registry_auth),
    }
    for name, (setting, value) in said.items():
        if value is not None and name in properties:
            raise SettingsError(f"{name} in {settings.schema_registry_config} is what {setting} says, too: drop one")
    if settings.schema_registry_ca is not None:
        properties["ssl.ca.location"] = str(settings.schema_registry_ca)
    if settings.schema_registry_auth is not None:
        properties[_AUTH] = settings.schema_registry_auth.get_secret_value()
    return properties


def _checked(urls: str) -> str:
    for url in urls.split(","):
        try:
            parts = urlsplit(url.strip())
            sound = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            sound, parts = False, urlsplit("")
        if parts.username is not None or parts.password is not None:
            raise SettingsError(
                "schema_registry_url holds credentials, which logs and command lines would show: put user:password "
                "into TOWPATH_SCHEMA_REGISTRY_AUTH, or basic.auth.user.info into a file by schema_registry_config"
            )
        if not sound:
            raise SettingsError(f"schema_registry_url: {url!r} is no URL of a server, such as http://127.0.0.1:8081")
    return urls
