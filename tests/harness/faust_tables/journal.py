"""What workers have written down, and what it says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

EVENT, REVOKED, ASSIGNED, RECOVERED = range(4)

RECORD = np.dtype(
    [
        ("what", "u1"),
        ("partition", "<i4"),
        ("offset", "<i8"),
        ("key", "<i8"),
        ("number", "<i4"),
        ("found", "<i4"),
        ("time", "<f8"),
    ]
)
"""As :data:`tests.harness.faust_tables.program.RECORD`."""

Lines = NDArray[Any]


def read_journal(path: Path) -> Lines:
    """The lines of a worker so far; a line that is being written is left out."""
    data = path.read_bytes() if path.exists() else b""
    return np.frombuffer(data[: len(data) // RECORD.itemsize * RECORD.itemsize], RECORD)


def events_of(lines: Lines) -> Lines:
    """Those that are events."""
    return lines[lines["what"] == EVENT]


@dataclass(frozen=True)
class Verdict:
    """What all events together say.

    Attributes:
        processed: lines.
        lost: events that nobody has processed.
        lacking: events that met a table which lacked earlier events of their key.
        again: events that met a table which had them already: processed twice, or the changelog ahead of the offsets.
    """

    processed: int
    lost: int
    lacking: int
    again: int


def judge(journals: list[Lines], ends: dict[int, int]) -> Verdict:
    """Judge the events of all workers.

    Args:
        journals: of all workers that were there.
        ends: partition of the source → its end; it begins at 0.
    """
    events = np.concatenate([events_of(each) for each in journals])
    seen = {partition: np.unique(events["offset"][events["partition"] == partition]) for partition in ends}
    return Verdict(
        processed=len(events),
        lost=sum(end - len(seen[partition]) for partition, end in ends.items()),
        lacking=int(np.count_nonzero(events["found"] < events["number"] - 1)),
        again=int(np.count_nonzero(events["found"] >= events["number"])),
    )
