from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from statemgr.testing.clock import ManualClock
from towpath.stage.deadletter_log import COUNT_INTERVAL_S, MAX_KINDS, OTHERS, DeadLetterLog, kind_of


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    structlog.reset_defaults()
    with capture_logs() as lines:
        yield lines


def test_twenty_thousand_bad_records_of_one_kind_are_two_lines(lines: list[Any]) -> None:
    clock = ManualClock()
    log = DeadLetterLog("app.dead-letter", clock)
    for offset in range(20_000):
        log.note(f"expected `int`, got 'x{offset}' at byte {offset}", {"offset": str(offset)})
    clock.advance(COUNT_INTERVAL_S)
    log.report()
    first, count = lines
    assert (first["event"], first["offset"], first["log_level"]) == ("dead letter", "0", "warning")
    assert (count["event"], count["more"], count["reason"]) == ("dead letters", 19_999, first["reason"])


def test_the_first_of_each_kind_is_said(lines: list[Any]) -> None:
    log = DeadLetterLog("t", ManualClock())
    for reason in ("no value", "the key is null: a", "no value", "the key is null: b"):
        log.note(reason, {})
    assert [line["reason"] for line in lines] == ["no value", "the key is null: a", "the key is null: b"]


def test_counts_come_at_most_every_ten_seconds_and_not_for_nothing(lines: list[Any]) -> None:
    clock = ManualClock()
    log = DeadLetterLog("t", clock)
    log.note("bad", {})
    for _ in range(100):
        clock.advance(1.0)
        log.note("bad", {})
        log.report()
    counts = [line["more"] for line in lines if line["event"] == "dead letters"]
    assert len(counts) == 10
    clock.advance(2 * COUNT_INTERVAL_S)
    log.report()
    log.report()
    assert sum(line.get("more", 0) for line in lines) == 100
    assert len(lines) <= 12


def test_the_last_count_does_not_wait(lines: list[Any]) -> None:
    log = DeadLetterLog("t", ManualClock())
    log.note("bad", {})
    log.note("bad", {})
    log.report(last=True)
    assert lines[-1]["more"] == 1


def test_reasons_without_end_share_a_kind(lines: list[Any]) -> None:
    log = DeadLetterLog("t", ManualClock())
    for index in range(MAX_KINDS + 500):
        log.note("word" + "x" * (index % 7) + chr(0x4E00 + index), {})
    log.report(last=True)
    assert len(lines) == MAX_KINDS + 2
    assert lines[-1]["reason"] == OTHERS
    assert lines[-1]["more"] == 499


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("offset 17 is bad", "offset 4 is bad"),
        ("KeyError: 'a'", "KeyError: 'b'"),
        ('no field "a"', 'no field "b"'),
        ("at `$.a`", "at `$.b`"),
    ],
)
def test_numbers_and_quoted_words_make_no_new_kind(one: str, other: str) -> None:
    assert kind_of(one) == kind_of(other)
