"""After a crash, has the broker's former run declared dead before the next one begins.

Kafka's metadata log still says that the crashed run is alive and leads every partition, until its session has expired.
A broker that is its own controller waits for that while it starts, but may build its first picture of the cluster
from the state at the crash. Then (seen with Kafka 4.4.0; `docs/decisions/0011-broker-after-a-crash.md` has figures) its
coordinators are loaded twice within a second, for the old leadership and for the new one, and

* the transaction coordinator looks in between for the leaders of a transaction that was about to be committed, finds
  none ("these partitions are likely deleted already and hence can be skipped"), and calls it complete without a
  marker in any partition: what a client was told to be committed is then undone with the producer's next abort, in
  some partitions or in all;
* the group coordinator begins to answer before it has read its partition, with old committed offsets or none.

So the controller runs alone first, with a short session, until it has fenced the crashed run. The start that follows
need not wait for that session any more, and takes less time in total.
"""

import subprocess
import time
from collections.abc import Sequence

from towpath.broker import jvm
from towpath.broker.errors import BrokerDeadlineError
from towpath.broker.layout import Layout
from towpath.broker.logtail import log_size, log_text

__all__ = ["crashed", "fence_crashed"]

_ACTIVE = "Performing controller activation"
_FENCED = "Fencing broker 1 "

_NOBODY_SECONDS = 3.0
"""Seconds after which an active controller that has fenced nobody had nobody to fence: six of its sessions."""

_SETTLE_SECONDS = 0.3
"""Seconds for the fence's records to be in the log: milliseconds are usual."""

_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.1
"""Pause between two looks, each of which reads what the run has logged: some megabytes for many partitions."""


def crashed(layout: Layout) -> bool:
    """Tells whether the last run ended without a clean stop; False before the first run."""
    return layout.metadata.is_dir() and not layout.clean.exists()


def fence_crashed(layout: Layout, command: Sequence[str], deadline: float, *, tied: bool) -> None:
    """Runs the controller until the crashed run is fenced.

    Args:
        layout: The data directory.
        command: The controller's command line.
        deadline: Time (monotonic, seconds) at which it must be done.
        tied: Whether it ends with the thread that starts it (on Linux).

    Raises:
        BrokerDeadlineError: If it isn't done in time.
        OSError: If the data directory can't be used.
    """
    since = log_size(layout.log)
    child = jvm.launch(command, layout, tied=tied)
    try:
        _await_fence(child, layout, since, deadline)
    finally:
        child.terminate()
        try:
            child.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(_STOP_SECONDS)


def _await_fence(child: subprocess.Popen[bytes], layout: Layout, since: int, deadline: float) -> None:
    active_at = None
    while child.poll() is None:  # one that ends can't be helped here: the broker's own start will say why
        now = time.monotonic()
        text = log_text(layout.log, since)
        if _FENCED in text:
            time.sleep(_SETTLE_SECONDS)
            return
        if active_at is None and _ACTIVE in text:
            active_at = now
        if active_at is not None and now - active_at >= _NOBODY_SECONDS:
            return
        if now >= deadline:
            raise BrokerDeadlineError(
                f"the controller of {layout.root} has not fenced the crashed run in time: "
                f"is the machine overloaded? See {layout.log}"
            )
        time.sleep(_POLL_SECONDS)
