"""Traces of hand-overs: one trace a moved task, with spans of coordinator, old and new replica.

::

    hand-over ─────────────────────────────────────────────────────────▶  coordinator: from the decision to its end
      decision ─▶                                                         coordinator: until the assignment is logged
      prepare ───▶                                                        new replica: until nothing more can be done
                  release ─▶                                              old replica: until its last commit
                  take-over ──▶                                           new replica: until it may process a row
                  first output ──▶                                        new replica: until the first commit of rows
                               background copy ──────────────────────▶    new replica: until all state is here
                                                                 done ─▶  new replica: until that is in the log

The coordinator begins a trace; its context goes with the hint and with the assignment in the control log. Tracing may
fail, or be absent, without touching what it looks at.
"""

from towpath.tracing.spans import NO_SPANS, Spans
from towpath.tracing.start import start_tracing

__all__ = ["NO_SPANS", "Spans", "start_tracing"]
