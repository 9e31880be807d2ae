"""Whether a process traces, and where its spans go: by a setting."""

from __future__ import annotations

from urllib.parse import urlsplit

from statemgr.clock import Clock
from towpath.errors import SettingsError
from towpath.tracing.spans import NO_SPANS, Spans

PATH = "/v1/traces"
"""Where a collector takes traces over HTTP, by OpenTelemetry's convention."""


def start_tracing(url: str | None, clock: Clock, service: str, **about: str) -> Spans:
    """Spans of a process, sent to a collector beside its work.

    Args:
        url: of the collector, e.g. ``http://127.0.0.1:4318``; None: nothing is traced.
        clock: time.
        service: name of the service.
        about: what is said of the process with every span.

    Raises:
        SettingsError: the URL is none, or OpenTelemetry is not installed.
    """
    if not url:
        return NO_SPANS
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise SettingsError(f"traces_url={url}: expected the URL of an OpenTelemetry collector, http://127.0.0.1:4318")
    try:
        from towpath.tracing.otel import OtelSpans, exporting_to
    except ImportError as error:
        raise SettingsError(
            f"traces_url is set, but traces need more packages ({error}): pip install 'towpath[otel]', or leave it out"
        ) from error
    endpoint = url if parts.path.strip("/") else url.rstrip("/") + PATH
    return OtelSpans(exporting_to(endpoint, service, about), clock)
