"""A real single-node Kafka as a process of this machine."""

import contextlib
import datetime
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
import psutil

from towpath.broker import jvm, startup
from towpath.broker.archive import archive_flags
from towpath.broker.errors import (
    BrokerDeadlineError,
    BrokerError,
    BrokerNotRunningError,
    BrokerRunningError,
    BrokerSettingError,
    PortTakenError,
)
from towpath.broker.layout import Layout
from towpath.broker.ports import HOST
from towpath.broker.ready import answers
from towpath.broker.settings import broker_settings, check_heap
from towpath.broker.state import BrokerState, process_of, read_state, write_state
from towpath.jars import find_java, locked

__all__ = ["LocalBroker", "Started"]

STOP_DEADLINE = 20.0
"""Seconds for a clean stop (SIGTERM) before SIGKILL: half a second is usual."""

_KILL_DEADLINE = 10.0
"""Seconds for the system to remove a killed process."""

_PAUSE_DEADLINE = 10.0
"""Seconds for the system to stop all threads of a process: one that is at work goes on for a moment."""

_LOCK_DEADLINE = 2 * startup.READY_DEADLINE
"""Seconds to wait for another process that starts or stops the same broker."""

_ATTEMPTS = 3
"""Starts on automatic ports: another program may take one between the look and the start."""

_ANSWER_SECONDS = 2.0
"""Seconds for a metadata call on the loopback interface: a few milliseconds are usual."""

_HIGHEST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class Started:
    """The outcome of a start.

    Attributes:
        bootstrap: `host:port` for clients.
        pid: The broker's process.
        already_running: Whether it had been running before.
        seconds: Time from the call until the broker answered.
    """

    bootstrap: str
    pid: int
    already_running: bool
    seconds: float


class LocalBroker:
    """A single-node KRaft broker on the local JVM, with its data in one directory.

    Several objects, in any number of processes, may stand for the same broker: what runs is
    in the directory's state file. As a context manager it starts the broker, and stops it at
    the end unless it had been running before.

    Args:
        data_dir: Where everything of it lies; created by `start`.
        port: Port on 127.0.0.1; 0 takes the last one of this directory if it is free, else any.
        heap: Bound of the JVM's heap, such as `512m`.
        settings: Broker properties beyond Towpath's own.
        notify: Called with a line of text before something slow (the first download).
        tied: Whether the broker is stopped when the thread that starts it ends, however it ends
            (Linux; elsewhere it has no effect): nothing stays behind a killed test run.
        short_lived: Whether the broker will live minutes only, so that optimising its code does not pay.

    Raises:
        BrokerSettingError: If port, heap or a property can't be.
    """

    def __init__(
        self,
        data_dir: Path,
        port: int = 0,
        heap: str = "512m",
        settings: Mapping[str, str] | None = None,
        notify: Callable[[str], None] | None = None,
        *,
        tied: bool = False,
        short_lived: bool = False,
    ) -> None:
        if not 0 <= port <= _HIGHEST_PORT:
            raise BrokerSettingError(f"{port} isn't a port: name one up to {_HIGHEST_PORT}, or 0 for any free one")
        check_heap(heap)
        broker_settings(port, port, settings or {})
        self._layout = Layout(data_dir.absolute())
        self._heap = heap
        self._settings = dict(settings or {})
        self._port = port
        self._notify = notify
        self._tied = tied
        self._flags = jvm.SHORT_LIVED_FLAGS if short_lived else ()
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def data_dir(self) -> Path:
        """The data directory, absolute."""
        return self._layout.root

    @property
    def log(self) -> Path:
        """Kafka's log file."""
        return self._layout.log

    @property
    def state(self) -> BrokerState | None:
        """What the state file says; None before the first start."""
        return read_state(self._layout.state)

    @property
    def pid(self) -> int | None:
        """The broker's process (a paused one counts), or None if it doesn't run."""
        process = self._process()
        return None if process is None else process.pid

    @property
    def bootstrap(self) -> str:
        """`host:port` for clients; it stays the same over this object's restarts.

        Raises:
            BrokerNotRunningError: If it has never been started.
        """
        state = self.state
        if state is None:
            raise BrokerNotRunningError(f"no broker has been started in {self.data_dir}: start it first")
        return f"{HOST}:{state.port}"

    def answers(self, timeout: float = _ANSWER_SECONDS) -> bool:
        """Tells whether the broker runs and serves clients, within a time in seconds."""
        state = self.state
        return state is not None and self._process() is not None and answers(state.port, timeout)

    def start(self) -> Started:
        """Starts the broker and waits until it serves clients; a running one is left as it is.

        Raises:
            BrokerError: If it can't be; see `towpath.broker.errors`.
            JarsError: If Java or the jars are missing; see `towpath.jars.errors`.
        """
        begin = time.monotonic()
        try:
            self._layout.root.mkdir(parents=True, exist_ok=True)
            with self._exclusive():
                already = self._process() is not None
                state = self._running_state() if already else self._launch()
        except BrokerError:
            raise
        except OSError as error:
            raise startup.data_dir_error(self.data_dir, error) from error
        self._port = state.port
        seconds = time.monotonic() - begin
        return Started(f"{HOST}:{state.port}", state.pid or 0, already_running=already, seconds=seconds)

    def stop(self, timeout: float = STOP_DEADLINE) -> bool:
        """Stops the broker cleanly, or kills it when that takes longer than `timeout` seconds.

        Returns:
            Whether it was running.

        Raises:
            BrokerDeadlineError: If even a killed broker doesn't go away.
        """
        if not self.data_dir.is_dir():
            return False
        with self._exclusive():
            process = self._process()
            if process is not None:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.resume()  # a paused process would never see the next signal
                    process.terminate()
                if not self._gone(process, timeout):
                    self.kill()
            state = self.state
            if state is not None and state.pid is not None:
                write_state(self._layout.state, msgspec.structs.replace(state, pid=None))
            return process is not None

    def kill(self) -> None:
        """Kills the broker (SIGKILL), as a crash would; its data stay.

        Raises:
            BrokerNotRunningError: If it doesn't run.
            BrokerDeadlineError: If it doesn't go away.
        """
        process = self._existing()
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
        if not self._gone(process, _KILL_DEADLINE):
            raise BrokerDeadlineError(f"process {process.pid} is still there {_KILL_DEADLINE:.0f} s after SIGKILL")

    def pause(self) -> None:
        """Stops the broker's process in its tracks (SIGSTOP): from then on it stays connected and silent.

        Raises:
            BrokerNotRunningError: If it doesn't run.
            BrokerDeadlineError: If it doesn't stop.
        """
        process = self._existing()
        process.suspend()
        deadline = time.monotonic() + _PAUSE_DEADLINE
        while not _all_stopped(process):
            if time.monotonic() >= deadline:
                raise BrokerDeadlineError(f"process {process.pid} still runs {_PAUSE_DEADLINE:.0f} s after SIGSTOP")
            time.sleep(0.001)

    def resume(self) -> None:
        """Lets a paused broker go on (SIGCONT).

        Raises:
            BrokerNotRunningError: If it doesn't run.
        """
        self._existing().resume()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child is not None:
            self.stop()

    def _running_state(self) -> BrokerState:
        state = self.state
        if state is None:
            raise BrokerRunningError(f"a broker runs in {self.data_dir}, but its state file is gone: stop it first")
        if self._port not in (0, state.port):
            raise BrokerRunningError(
                f"the broker in {self.data_dir} already runs on port {state.port}, not {self._port}: "
                "stop it first, or name another data directory"
            )
        return state

    def _launch(self) -> BrokerState:
        startup.check_space(self.data_dir)
        java, jars = find_java(), jvm.kafka_jars(self._notify)
        flags = (*archive_flags(java, jars, self._notify), *self._flags)
        plan = startup.Plan(self._layout, java, jars, self._heap, self._settings, flags, self._tied)
        for attempt in range(1, _ATTEMPTS + 1):
            port, controller_port = startup.choose_ports(self._port, self.state)
            try:
                child = startup.launch_ready(plan, port, controller_port)
            except PortTakenError:
                if attempt == _ATTEMPTS:
                    raise
            else:
                return self._record(child, port, controller_port)
        raise AssertionError("the last attempt returns or raises")

    def _record(self, child: subprocess.Popen[bytes], port: int, controller_port: int) -> BrokerState:
        self._child = child
        state = BrokerState(
            pid=child.pid,
            created=psutil.Process(child.pid).create_time(),
            port=port,
            controller_port=controller_port,
            started_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            heap=self._heap,
        )
        write_state(self._layout.state, state)
        return state

    def _process(self) -> psutil.Process | None:
        if self._child is not None and self._child.poll() is None:
            return psutil.Process(self._child.pid)
        return process_of(self.state)

    def _existing(self) -> psutil.Process:
        process = self._process()
        if process is None:
            raise BrokerNotRunningError(f"no broker runs in {self.data_dir}: start it first")
        return process

    def _gone(self, process: psutil.Process, timeout: float) -> bool:
        """Waits for a process to end, and takes its exit status if it is a child of this one."""
        try:
            if self._child is not None and self._child.pid == process.pid:
                self._child.wait(timeout)
            else:
                process.wait(timeout)
        except (subprocess.TimeoutExpired, psutil.TimeoutExpired):
            return False
        return True

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        try:
            with locked(self._layout.lock, _LOCK_DEADLINE):
                yield
        except BrokerError:
            raise
        except TimeoutError as error:
            raise BrokerDeadlineError(f"{error}: end it, try again") from error


def _all_stopped(process: psutil.Process) -> bool:
    return all(_is_stopped(thread.id) for thread in process.threads())


def _is_stopped(thread: int) -> bool:
    try:
        return psutil.Process(thread).status() == psutil.STATUS_STOPPED
    except psutil.NoSuchProcess:
        return True  # ended in the meantime
