"""What is said of an error of Spark: the innermost cause, in one line, and what can be done about it."""

from __future__ import annotations

_CAUSED_BY = "Caused by: "

_REMEDIES = {
    "Python worker failed to connect back": "the machine is too busy for Spark's Python workers to start: end other "
    "work on it, and try again",
}
"""Words of a cause → what they mean to a user."""


def cause_of(error: BaseException) -> str:
    """One line on an error of Spark, whose own text may be pages long, empty, or fail to be made."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - it asks a JVM that may be gone
        text = ""
    lines = [line for line in text.splitlines() if line.strip()]
    causes = [line.split(_CAUSED_BY, 1)[1] for line in lines if _CAUSED_BY in line]
    if not lines:
        return f"{type(error).__name__}, and Spark's JVM no longer says why: it may have been ended"
    said = " ".join((causes[-1] if causes else lines[0]).split())
    remedies = [remedy for words, remedy in _REMEDIES.items() if words in " ".join(text.split())]
    return f"{said} ({remedies[0]})" if remedies else said
