"""The report is one file, with the plot in it and every figure beside its name."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pandas as pd
import pytest

from loadgen.errors import LoadgenError
from loadgen.histogram import COUNT_COLUMNS, empty_counts, merge_counts
from loadgen.latency.meter import Frames
from loadgen.latency.plot import per_second, uses_log_scale
from loadgen.latency.report import report

SECOND = 1_795_828_000
"""2026-11-28 01:06:40 UTC."""


def frames(stall_ms: float = 30.0) -> Frames:
    rows = [
        (topic, kind, SECOND + second, value, 10, 40)
        for topic, kind in (("counts", "append"), ("counts", "visible"), ("events", "load"))
        for second in (0, 1, 3)
        for value in (5.0, stall_ms)
    ]
    return Frames.of(merge_counts([pd.DataFrame(rows, columns=COUNT_COLUMNS)]), {"counts": 60})


@pytest.mark.slow
def test_the_html_needs_no_other_file(tmp_path: Path) -> None:
    written = report(frames(), tmp_path, title="a <run>", facts={"events": 600_000, "lost": False})
    html = written["html"].read_text(encoding="utf-8")
    assert html.count("data:image/png;base64,") == 1
    assert not re.search(r'(src|href)="(?!data:)', html)
    assert "a &lt;run&gt;" in html
    assert "600,000" in html
    assert "2026-11-28 01:06:40 – 01:06:43 UTC" in html
    assert "visible (read_committed)" in html
    assert written["png"].read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_local_time_zone_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = []
    for zone in ("UTC", "Asia/Kolkata", "America/New_York"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        texts.append(report(frames(), tmp_path / f"{zone[:3]}.html")["html"].read_bytes())
    monkeypatch.undo()
    time.tzset()
    assert texts[0] == texts[1] == texts[2]


def test_nothing_measured_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(LoadgenError, match="nothing to report; did the pipeline run"):
        report(Frames.of(empty_counts()), tmp_path)


def test_records_are_counted_once_per_topic() -> None:
    assert frames().records == {"counts": 60, "events": 60}


def test_seconds_without_records_are_gaps_in_latency_and_zero_in_throughput() -> None:
    table = per_second(frames().windows, "append", SECOND, SECOND + 3)
    assert table["rows"].tolist() == [20, 20, 0, 20]
    assert table["p50_ms"].isna().tolist() == [False, False, True, False]


def test_the_axis_is_logarithmic_only_when_the_spread_asks_for_it() -> None:
    def scaled(stall_ms: float) -> bool:
        return uses_log_scale(per_second(frames(stall_ms).windows, "append", SECOND, SECOND + 3))

    assert not scaled(30)
    assert scaled(4000)
