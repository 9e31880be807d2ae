"""The same jobs on Towpath and its peers: one broker, one data set, one system after another.

::

    systems/  how each is installed, set up and started   ─┐
    jobs      what is computed, and the right answer       ├─▶ drain, latency ─▶ results ─▶ targets, plots, page
    data      what lies in the source topics              ─┘

A peer's own program, and its locked requirements, are in the directory of its name.
"""
