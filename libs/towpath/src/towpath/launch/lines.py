"""The lines of a pod on its standard output: those of its processes, and its own among them."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from statemgr.log_format import LogFormat

POD = "pod"
"""Who says what the pod itself says."""


def as_line(part: str, said: bytes, form: LogFormat) -> bytes:
    """One line of output, its end included.

    Args:
        part: who said it.
        said: the line, without its end.
        form: with JSON a line that is an object already stays as it is, and any other becomes one; what a process says
            in another form is a warning, since its log has that form.
    """
    if form is LogFormat.TEXT:
        return b"%-8b | %b\n" % (part.encode(), said)
    if said.startswith(b"{") and said.rstrip().endswith(b"}"):
        return said + b"\n"
    line = {
        "timestamp": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        "level": "info" if part == POD else "warning",
        "part": part,
        "event": said.decode(errors="replace"),
    }
    return json.dumps(line).encode() + b"\n"
