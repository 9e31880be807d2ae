"""The owner of a store as a process of its own, which a test may stop and kill."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from statemgr.store import RocksBackend, RocksSettings, StoreMeta
from statemgr.types import TaskId

TASK = TaskId("count", 3)
BATCH = 50
SAME = (b"\x05\x00\x01same", b"\xf5\x00\x01same")
"""Two entries that every batch sets to its offset."""

_REPOSITORY = Path(__file__).parents[4]


class Owner:
    """Writes one small batch after another until it is killed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Open the store, as a restart does, and begin; returns after the first batches."""
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.unit.statemgr.sidecar.owner", str(self._root)],
            stdout=subprocess.PIPE,
            cwd=_REPOSITORY,
        )
        assert self._child.stdout is not None
        assert self._child.stdout.readline() == b"writing\n"

    def pause(self) -> None:
        """SIGSTOP."""
        self._running.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._running.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, if it runs."""
        if self._child is not None:
            self._child.kill()
            self._child.wait(10)
            self._child.stdout.close()
            self._child = None

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._child is not None
        return self._child


def _write_on(root: Path) -> None:
    store = RocksBackend(root, RocksSettings(store_write_buffer_bytes=256 * 1024)).open(TASK, 1)
    meta = store.meta()
    offset = 0 if meta is None else meta.offset
    first = offset
    while True:
        offset += 1
        entries = [(b"%c\0\1k%06d" % (n % 256, (offset * BATCH + n) % 50_000), b"v%d" % offset) for n in range(BATCH)]
        entries += [(key, b"%d" % offset) for key in SAME]
        store.write(entries, StoreMeta("T", offset, 1, 1, None))
        if offset == first + 20:
            print("writing", flush=True)


if __name__ == "__main__":
    _write_on(Path(sys.argv[1]))
