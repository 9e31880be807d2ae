"""What makes a topic or a clock unfit for measuring is said in one line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from loadgen import topics
from loadgen.errors import ClockError, TopicError, UnreachableError
from loadgen.topics import ClockReading, Offsets, check_clock, end_offsets, parse_create, topic_faults

FIT = {"message.timestamp.type": "LogAppendTime", "retention.ms": "-1", "cleanup.policy": "delete"}


def test_a_fit_topic_has_no_faults() -> None:
    assert topic_faults(FIT) == []
    assert topic_faults(FIT | {"retention.ms": "604800000"}) == []


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("message.timestamp.type", "CreateTime", "set message.timestamp.type=LogAppendTime"),
        ("retention.ms", "60000", "set retention.ms=-1"),
        ("cleanup.policy", "compact", "set cleanup.policy=delete"),
    ],
)
def test_each_fault_names_its_remedy(name: str, value: str, remedy: str) -> None:
    (fault,) = topic_faults(FIT | {name: value})
    assert fault.endswith(remedy)


def test_create_says_how_many_partitions() -> None:
    assert parse_create("partitions=8") == parse_create("8") == 8
    for text in ("partitions=", "partitions=0", "eight"):
        with pytest.raises(TopicError, match="write --create-topic partitions=8"):
            parse_create(text)


def test_clocks_that_differ_are_refused_beyond_the_error_of_measurement() -> None:
    check_clock(ClockReading(offset_ms=-40, error_ms=1))
    check_clock(ClockReading(offset_ms=120, error_ms=80))
    with pytest.raises(ClockError, match=r"the broker's clock is \+2000 ms \(± 3\).*synchronise the clocks"):
        check_clock(ClockReading(offset_ms=2000, error_ms=3))
    with pytest.raises(ClockError, match="-2000 ms"):
        check_clock(ClockReading(offset_ms=-2000, error_ms=3))


def broker_away_for(looks: int) -> Callable[..., Offsets]:
    """Answers after so many requests without an answer."""
    left = iter(range(looks))

    def offsets(*_: object) -> Offsets:
        if next(left, None) is not None:
            raise UnreachableError("no answer")
        return {0: 7}

    return offsets


def test_ends_are_asked_for_again_while_a_broker_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "BETWEEN_TRIES_S", 0.0)
    monkeypatch.setattr(topics, "_list_offsets", broker_away_for(2))
    assert end_offsets("b:1", "events", patience_s=60) == {0: 7}
    monkeypatch.setattr(topics, "_list_offsets", broker_away_for(1))
    with pytest.raises(UnreachableError):
        end_offsets("b:1", "events")
