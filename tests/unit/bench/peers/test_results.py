"""Rows, medians, targets and the page."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.peers.cli import parse
from bench.peers.jobs import EACH_JOB, JOBS, LATENCY_JOB, job_named
from bench.peers.page import page, reason
from bench.peers.results import DRAIN, Row, append, load, summarised
from bench.peers.systems import all_systems
from bench.peers.targets import targets

FIGURES = {
    "events_per_s": 5.0,
    "whole_events_per_cpu_s": 4.0,
    "outputs_per_event": 1.0,
    "changelog_per_event": None,
    "peak_rss_mb": 100.0,
    "rss_flat": True,
}


def row(system: str, per_cpu: float | None, number: int = 1, **changes: Any) -> Row:
    made = Row(DRAIN, "count-bids", system, "exactly-once", "default", {"a": "b"}, number, 1000, revision="abc")
    if per_cpu is None:
        return replace(made, error="it ended with status 1: no memory\nsecond line", **changes)
    return replace(made, figures={**FIGURES, "events_per_cpu_s": per_cpu}, **changes)


def test_rows_come_back_from_the_file_as_they_were(tmp_path: Path):
    path = tmp_path / "a" / "results.jsonl"
    assert load(path) == []
    rows = [row("towpath", 10.0), row("flink", None)]
    for each in rows:
        append(path, each)
    assert load(path) == rows


def test_a_median_is_over_rounds_and_a_newer_row_of_a_round_replaces_the_older():
    rows = [row("towpath", 99.0, 1), row("towpath", 10.0, 1), row("towpath", 30.0, 2), row("towpath", 12.0, 3)]
    (found,) = summarised(rows)
    assert (found.rounds, found.median["events_per_cpu_s"]) == (3, 12.0)
    assert (found.low["events_per_cpu_s"], found.high["events_per_cpu_s"]) == (10.0, 30.0)
    assert found.median["rss_flat"] == 1.0
    assert "changelog_per_event" not in found.median


def test_rounds_without_figures_do_not_hide_those_with():
    (found,) = summarised([row("towpath", None, 1), row("towpath", 10.0, 2)])
    assert (found.rounds, found.error) == (1, None)


def test_a_target_compares_the_best_settings_of_both_sides():
    rows = [row("towpath", 60.0), row("towpath", 70.0, setting="best"), row("kafka-streams", 10.0)]
    (found,) = targets(summarised(rows))
    assert found == {"id": "full bids: times kafka-streams", "target": 6, "measured": 7.0, "ok": True}


def test_a_target_counts_the_asked_guarantee_alone():
    rows = [row("towpath", 60.0), row("kafka-streams", 20.0), row("kafka-streams", 1.0, guarantee="at-least-once")]
    (found,) = targets(summarised(rows))
    assert (found["measured"], found["ok"]) == (3.0, False)


def test_a_target_whose_other_side_failed_is_not_reached_and_one_not_asked_for_is_left_out():
    (found,) = targets(summarised([row("towpath", 60.0), row("flink", None)]))
    assert (found["id"], found["measured"], found["ok"]) == ("full bids: times flink", None, False)
    assert targets(summarised([row("towpath", 60.0)])) == []


def test_latency_targets_are_upper_limits():
    figures = {"p50_ms": 9.0, "p99_ms": 90.0, "p999_ms": 99.0, "own_p99_ms": 1.0, "cpu_cores": 0.5}
    rows = [replace(row("towpath", 1.0), measure="latency-1000", job="latency", figures=figures)]
    found = {each["id"]: each["ok"] for each in targets(summarised(rows))}
    assert found == {
        "latency at 1,000/s, exactly-once, p50_ms": True,
        "latency at 1,000/s, exactly-once, p99_ms": False,
    }


MACHINE = {
    "processor": "P", "cores": 2, "memory_gib": 24, "system": "S", "python": "3", "load_before": 0.1, "date": "D",
}  # fmt: skip


def test_the_page_shows_figures_reasons_and_settings():
    summaries = summarised([row("towpath", 60.0, 1), row("towpath", 80.0, 2), row("flink", None)])
    text = page(summaries, targets(summaries), MACHINE, {"flink": "Flink SQL"}, {"Speed": "images/a.png"})
    assert "| towpath | exactly-once | default | 70 (60 – 80) | 5 | 4 | 1 | – | 100 | 1,000 | 2 |" in text
    assert "- Flink SQL (exactly-once, default): it ended with status 1: no memory\n" in text
    assert "| full bids: times flink | no | 6 | – |" in text
    assert "| Flink SQL | exactly-once | default | `a=b` |" in text
    assert "![Speed](images/a.png)" in text


def test_a_reason_is_one_line_with_the_last_error_of_the_log():
    log = "it ended with status 1: Traceback\n  a: 1\nValueError: no\nmore.SomeError: gone\nwarnings.warn("
    assert reason(log) == "it ended with status 1: more.SomeError: gone"
    assert reason("not done after 5 s: 0 outputs\nlast words") == "not done after 5 s: 0 outputs"


def test_systems_and_variants_have_names_of_their_own():
    names = [system.name for system in all_systems()]
    assert len(set(names)) == len(names)
    for system, job in itertools.product(all_systems(), [*JOBS, LATENCY_JOB]):
        variants = system.variants(job)
        assert len({variant.name for variant in variants}) == len(variants)
        assert all(variant.system == system.name for variant in variants)


def test_both_sides_of_the_comparison_with_one_output_per_event_are_measured():
    found = [variant.name for system in all_systems() for variant in system.variants(job_named(EACH_JOB))]
    assert [name for name in found if name.endswith("/each")] == [
        "towpath/exactly-once/each",
        "kafka-streams/exactly-once/each",
    ]


def test_quick_measures_ours_kafka_streams_and_faust_on_the_key_count_alone():
    options = parse(["--quick"])
    assert [system.name for system in options.systems] == ["towpath", "kafka-streams", "faust"]
    assert [(measure.name, measure.job.name) for measure in options.measures] == [(DRAIN, "count-bids")]


def test_options_choose_systems_jobs_rates_and_variants():
    given = "--systems quix,faust --jobs q0 --rates 500 --settings best --guarantees exactly-once --rounds 2"
    options = parse(given.split())
    assert [system.name for system in options.systems] == ["quix", "faust"]
    assert [measure.name for measure in options.measures] == [DRAIN, "latency-500"]
    assert options.rounds == 2
    (quix, faust), job = options.systems, job_named("q0")
    assert [variant.name for variant in options.wanted(quix.variants(job))] == ["quix/exactly-once/best"]
    assert [variant.name for variant in options.wanted(faust.variants(job))] == ["faust/at-least-once/default"]


@pytest.mark.parametrize("wrong", [["--systems", "storm"], ["--jobs", "q99"]])
def test_a_wrong_name_is_answered_with_the_right_ones(wrong: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        parse(wrong)
    said = capsys.readouterr().err
    assert f"there is no {wrong[0][2:-1]} {wrong[1]!r}" in said
