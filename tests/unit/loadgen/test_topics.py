"""What makes a topic or a clock unfit for measuring is said in one line."""

from __future__ import annotations

import pytest

from loadgen.errors import ClockError, TopicError
from loadgen.topics import ClockReading, check_clock, parse_create, topic_faults

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
