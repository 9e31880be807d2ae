"""Whether a process traces, and that its spans reach a collector."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from statemgr.clock import SystemClock
from statemgr.testing.clock import ManualClock
from tests.harness.collector import Collector
from tests.harness.waiting import wait_for
from towpath.errors import SettingsError
from towpath.tracing import NO_SPANS, start_tracing


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


def test_without_the_setting_nothing_is_traced() -> None:
    for url in (None, ""):
        spans = start_tracing(url, ManualClock(), "towpath-stage")
        assert spans is NO_SPANS
        assert spans.begin("hand-over", task="count/0") == ""
        spans.span("release", "", 0.0, 1.0)
        spans.end("")
        spans.close()


@pytest.mark.parametrize("url", ["127.0.0.1:4318", "ftp://collector", "http://"])
def test_what_is_no_url_is_refused_in_one_line(url: str) -> None:
    with pytest.raises(SettingsError, match="expected the URL of an OpenTelemetry collector") as caught:
        start_tracing(url, ManualClock(), "towpath-stage")
    assert "\n" not in str(caught.value)


def test_where_the_extra_is_missing_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("opentelemetry.sdk")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "towpath.tracing.otel", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    with pytest.raises(SettingsError, match=r"pip install 'towpath\[otel\]'") as caught:
        start_tracing("http://127.0.0.1:4318", ManualClock(), "towpath-stage")
    assert "traces_url" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("suffix", "path"), [("", "/v1/traces"), ("/", "/v1/traces"), ("/my/traces", "/my/traces")])
def test_spans_reach_the_collector_with_what_is_known_of_the_process(
    collector: Collector, suffix: str, path: str
) -> None:
    clock = SystemClock()
    spans = start_tracing(collector.url + suffix, clock, "towpath-stage", **{"service.instance.id": "count-0"})
    trace = spans.begin("hand-over", task="count/3")
    now_s = clock.monotonic_s()
    spans.span("release", trace, now_s - 2.0, now_s - 1.5, task="count/3", epoch=2)
    spans.end(trace, outcome="done")
    spans.close()
    wait_for("the spans have come", lambda: len(collector.spans()) == 2, 10.0, lambda: str(collector.requests))
    assert {where for where, _ in collector.requests} == {path}
    by_name = {span.name: span for span in collector.spans()}
    release, root = by_name["release"], by_name["hand-over"]
    assert release.trace_id == root.trace_id
    assert release.parent_span_id == root.span_id
    assert release.end_time_unix_nano - release.start_time_unix_nano == pytest.approx(500_000_000, abs=10_000_000)
    assert root.start_time_unix_nano - release.start_time_unix_nano == pytest.approx(2_000_000_000, abs=200_000_000)
    attributes = collector.requests[0][1].resource_spans[0].resource.attributes
    resource = {each.key: each.value.string_value for each in attributes}
    assert resource["service.name"] == "towpath-stage"
    assert resource["service.instance.id"] == "count-0"


def test_an_end_that_another_process_began_is_nothing() -> None:
    spans = start_tracing("http://127.0.0.1:1", SystemClock(), "towpath-stage")
    spans.end("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", outcome="done")
    spans.close()
