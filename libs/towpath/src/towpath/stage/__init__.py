"""The stage runtime: one replica of one stage, from assignment to commit.

::

    service ── settings, signals, HTTP ──▶ replica ──▶ phases (state machine)
                                              │
               poll ─▶ intake ─▶ operators ─▶ router ─▶ transaction ─▶ stores
                     (decode)   (Polars)    (partition)   (one commit: outputs, changelog, progress, offsets)
"""
