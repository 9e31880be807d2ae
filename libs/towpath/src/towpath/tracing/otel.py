"""Spans by OpenTelemetry's SDK; needs the extra ``otel``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import structlog
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from statemgr.clock import Clock
from towpath.tracing.spans import About

log = structlog.get_logger()

EXPORT_TIMEOUT_S = 5
"""One request to the collector; spans wait for it in a queue of their own, of which the oldest are dropped."""

LAST_SPANS_S = 1.0
"""For what is left when the process ends, which is to be gone 10 s after SIGTERM."""

MOST_OPEN = 10_000
"""Traces that are begun and not ended: a rescale of a thousand tasks, ten times over."""

_FIELD = "traceparent"


def exporting_to(endpoint: str, service: str, about: Mapping[str, str]) -> TracerProvider:
    """Makes tracers whose spans a thread sends to a collector, in batches.

    Args:
        endpoint: URL that takes traces as Protobuf over HTTP.
        service: name of the service.
        about: further attributes of the process.
    """
    provider = TracerProvider(
        resource=Resource.create({"service.name": service, **about}),
        shutdown_on_exit=False,  # it would wait for a collector that is away
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_TIMEOUT_S)))
    return provider


class OtelSpans:
    """Implements :class:`towpath.tracing.spans.Spans`.

    Args:
        provider: makes the tracer.
        clock: time.
    """

    said = False
    """Whether this process has told that spans are missing: once is enough."""

    def __init__(self, provider: TracerProvider, clock: Clock) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("towpath")
        self._clock = clock
        self._context = TraceContextTextMapPropagator()
        self._open: dict[str, Span] = {}

    def begin(self, name: str, **about: About) -> str:
        """See :class:`~towpath.tracing.spans.Spans`."""
        begun: list[str] = []
        self._guarded(lambda: begun.append(self._begin(name, about)))
        return begun[0] if begun else ""

    def end(self, trace: str, **about: About) -> None:
        """See :class:`~towpath.tracing.spans.Spans`."""
        self._guarded(lambda: self._end(trace, about))

    def span(self, name: str, trace: str, begun_s: float, ended_s: float, **about: About) -> None:
        """See :class:`~towpath.tracing.spans.Spans`."""
        if trace:
            self._guarded(lambda: self._span(name, trace, begun_s, ended_s, about))

    def close(self) -> None:
        """See :class:`~towpath.tracing.spans.Spans`."""
        sending = threading.Thread(target=self._provider.shutdown, name="last-spans", daemon=True)
        sending.start()
        sending.join(LAST_SPANS_S)

    def _begin(self, name: str, about: Mapping[str, About]) -> str:
        span = self._tracer.start_span(name, start_time=self._wall_ns(self._clock.monotonic_s()), attributes=about)
        carrier: dict[str, str] = {}
        self._context.inject(carrier, set_span_in_context(span))
        if len(self._open) < MOST_OPEN:
            self._open[carrier[_FIELD]] = span
        return carrier[_FIELD]

    def _end(self, trace: str, about: Mapping[str, About]) -> None:
        span = self._open.pop(trace, None)
        if span is not None:
            span.set_attributes(about)
            span.end(self._wall_ns(self._clock.monotonic_s()))

    def _span(self, name: str, trace: str, begun_s: float, ended_s: float, about: Mapping[str, About]) -> None:
        parent = self._context.extract({_FIELD: trace})
        span = self._tracer.start_span(name, parent, start_time=self._wall_ns(begun_s), attributes=about)
        span.end(self._wall_ns(ended_s))

    def _wall_ns(self, at_s: float) -> int:
        ago_s = self._clock.monotonic_s() - at_s
        return self._clock.wall_ms() * 1_000_000 - round(ago_s * 1e9)

    @staticmethod
    def _guarded(work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not reach what is traced
            if not OtelSpans.said:
                OtelSpans.said = True
                log.warning("spans are missing from traces, everything else goes on", cause=repr(error))
