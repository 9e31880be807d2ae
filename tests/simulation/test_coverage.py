"""The tables of what was met, and what is said to be missing."""

from __future__ import annotations

import pytest

from tests.simulation.coverage import EVENTS, LINE, STATES, STEPS, Coverage, missing, report, table
from tests.simulation.kinds import Kind


def test_every_kind_of_strike_has_a_row_also_those_that_never_came() -> None:
    lines = table(Coverage({("asking", "kill"): 12}), STATES).splitlines()
    assert set(Kind) <= set(EVENTS)
    assert [line[: len(event)] for line, event in zip(lines[1:], EVENTS, strict=True)] == list(EVENTS)
    kill = lines[1 + EVENTS.index("kill")].removeprefix("kill").split()
    assert kill == ["12" if state == "asking" else "·" for state in STATES]


def test_kinds_that_never_came_are_named() -> None:
    first = missing(Coverage({("asking", event): 1 for event in EVENTS if event != "night"})).splitlines()[1]
    assert first == "never came: night"


@pytest.mark.parametrize("state", [*STATES, *STEPS])
def test_a_state_that_nothing_has_met_is_named(state: str) -> None:
    assert f"{state}: met by nothing" in missing(Coverage())


def test_of_every_state_the_shorter_list_is_given() -> None:
    most = Coverage({(state, event): 1 for state in ("asking", "opening") for event in EVENTS})
    del most["asking", "kill"]
    few = Coverage({**most, ("filling", "kill"): 1})
    assert "asking: not met by: kill\n" in missing(few)
    assert "filling: met only by: kill\n" in missing(few)
    assert "opening" not in missing(few)


def test_a_report_is_readable() -> None:
    lines = report(Coverage()).splitlines()
    assert max(map(len, lines)) <= LINE + 30
    assert f"0 of {len(EVENTS) * (len(STATES) + len(STEPS))} cells were met" in lines
