import pytest

from loadgen.causes import cause_of


class Unspeakable(RuntimeError):
    """As an error of Spark whose JVM is gone."""

    def __str__(self) -> str:
        raise ConnectionError("no JVM")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("first\nsecond", "first"),
        ("[STREAM_FAILED] Query  terminated", "[STREAM_FAILED] Query terminated"),
        ("outer\nCaused by: middle\n  at x\nCaused by: the broker is gone \n  at y", "the broker is gone"),
    ],
)
def test_the_innermost_cause_in_one_line(text: str, expected: str) -> None:
    assert cause_of(RuntimeError(text)) == expected


def test_workers_that_cannot_start_are_explained_wherever_the_line_breaks() -> None:
    said = cause_of(
        RuntimeError("[STREAM_FAILED] Query terminated with exception: Python worker failed to\nconnect back.")
    )
    assert said.endswith(
        "(the machine is too busy for Spark's Python workers to start: end other work on it, and try again)"
    )


@pytest.mark.parametrize("error", [Unspeakable(), RuntimeError(""), RuntimeError("\n")])
def test_an_error_without_words_is_named(error: RuntimeError) -> None:
    assert cause_of(error) == f"{type(error).__name__}, and Spark's JVM no longer says why: it may have been ended"
