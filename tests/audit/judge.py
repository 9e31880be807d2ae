"""What an audit of the dependencies means: pure, from what the auditor has said."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

FAULTS_FOUND = 1
FAILED = 2

UNREACHABLE = ("error sending request", "Request failed after", "HTTP status server error", "HTTP status client error")
"""How the auditor says that its advisory database can't be asked."""


class Verdict(StrEnum):
    """What came of it."""

    CLEAN = "clean"
    FAULTS = "faults"
    NOT_CHECKED = "not checked"
    BROKEN = "broken"

    @property
    def status(self) -> int:
        """Exit status: a database that is away is no fault of the tree."""
        return 0 if self in {Verdict.CLEAN, Verdict.NOT_CHECKED} else 1


@dataclass(frozen=True)
class Audited:
    """A verdict, and what to say."""

    verdict: Verdict
    text: str


def judge(status: int, found: str, said: str) -> Audited:
    """Judge a run of ``uv audit``.

    Args:
        status: its exit status.
        found: what it wrote on standard output: the faults.
        said: what it wrote beside.
    """
    last = said.strip().splitlines()[-1].strip() if said.strip() else "no reason was given"
    if status == 0:
        return Audited(Verdict.CLEAN, f"audit: dependencies: {last}")
    if status == FAULTS_FOUND:
        return Audited(Verdict.FAULTS, f"audit: KNOWN FAULTS of locked dependencies:\n{found.rstrip()}")
    if status == FAILED and any(sign in said for sign in UNREACHABLE):
        return Audited(Verdict.NOT_CHECKED, _not_checked(last))
    return Audited(Verdict.BROKEN, f"audit: the dependencies' audit failed with status {status}:\n{said.rstrip()}")


def _not_checked(why: str) -> str:
    stars = "audit: " + "*" * 70
    return (
        f"{stars}\naudit: DEPENDENCIES WERE NOT CHECKED: the advisory database can't be asked.\naudit: {why}\n{stars}"
    )
