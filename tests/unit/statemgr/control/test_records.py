"""The records of the control log, as they are written."""

from __future__ import annotations

import msgspec

from statemgr.control.records import Assigned, Manner, Tenure, control_key, decode_control, encode_control


def assigned(**more: str) -> Assigned:
    return Assigned("count", 3, 2, "count-1", (Tenure("count-0", 1),), (), Manner(), 7, **more)


def test_an_assignment_that_is_not_traced_is_written_as_ever() -> None:
    assert "trace" not in msgspec.json.decode(encode_control(assigned()))


def test_the_trace_of_an_assignment_comes_back() -> None:
    record = assigned(trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    assert decode_control(control_key(record), encode_control(record)) == record


def test_a_version_that_knows_more_of_an_assignment_is_understood() -> None:
    more = msgspec.json.encode({**msgspec.json.decode(encode_control(assigned())), "mood": "fine"})
    assert decode_control(control_key(assigned()), more) == assigned()
