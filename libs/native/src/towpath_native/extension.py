"""The compiled part, and whether it can be used."""

from __future__ import annotations

import importlib
import os
from importlib import metadata
from typing import Any

import confluent_kafka
from confluent_kafka import cimpl

KNOWN_CLIENTS = ("2.16.",)
"""Releases of confluent-kafka whose client objects begin with librdkafka's handle, as was looked up in its source.

The binding has no way to ask for the handle. A release is added here after the contract tests have passed with it.
"""


def _load() -> tuple[Any, str | None]:
    """The extension, or None and the reason."""
    if os.environ.get("TOWPATH_NATIVE", "on").lower() in ("off", "0", "no", "false"):
        return None, "TOWPATH_NATIVE is off"
    version = metadata.version("confluent-kafka")
    if not version.startswith(KNOWN_CLIENTS):
        return None, f"confluent-kafka {version} is not known to this release"
    try:
        native = importlib.import_module("towpath_native._native")
    except ImportError as error:
        return None, f"the extension is not there ({error}): install a C compiler, and this package anew"
    missing = native.lib.tn_load(native.ffi.new("char[]", cimpl.__file__.encode()))
    if missing:
        return None, f"confluent-kafka's client lacks {native.ffi.string(missing).decode()}"
    return native, None


NATIVE, WHY_NOT = _load()
"""The extension, or None; and why it is None."""

_HANDLE_OFFSET = object.__basicsize__


def handle_of(client: Any) -> Any:
    """Librdkafka's handle of a confluent-kafka client: the first member behind the object's header.

    The client has to be open, and to stay so while the handle is used.

    Raises:
        TypeError: no client of confluent-kafka, or a closed one.
    """
    if not isinstance(client, (confluent_kafka.Consumer, confluent_kafka.Producer)):
        raise TypeError(f"{type(client).__name__} is no client of confluent-kafka")
    handle = NATIVE.ffi.cast("void **", id(client) + _HANDLE_OFFSET)[0]
    if handle == NATIVE.ffi.NULL:
        raise TypeError("the client is closed")
    return handle
