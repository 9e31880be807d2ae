"""``statemgr serve`` beside a store's owner, following a control log on a real broker."""

from __future__ import annotations

import http.server
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from statemgr.control.records import Assigned, Done, Layer, Manner, control_key, encode_control
from statemgr.errors import HolderUnavailableError, NoSuchCopyError, StaleRequestError
from statemgr.kafka.confluent import ConfluentKafka
from statemgr.kafka.ports import TopicSpec
from statemgr.layout import control_topic
from statemgr.migration.ports import Address
from statemgr.sidecar.client import GrpcStateClient
from statemgr.sidecar.endpoint import read_endpoint
from statemgr.store.directories import epochs_of
from tests.harness.serving import serving
from tests.harness.waiting import wait_for
from tests.unit.statemgr.sidecar.owner import SAME, TASK, Owner

pytestmark = pytest.mark.slow

LIMIT_S = 60.0
ASK_S = 5.0
A_1 = Layer("a", 1)


class StateManager:
    """The process, and a client that asks it."""

    def __init__(self, root: Path, app: str, bootstrap: str, *options: str) -> None:
        self.root = root
        self.log = root.with_suffix(".log")
        command = [sys.executable, "-m", "statemgr.cli", "serve", "--app", app, "--replica", "a"]
        command += ["--state-dir", str(root), "--bootstrap", bootstrap, "--die-with-parent", *options]
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(command, stdout=log, stderr=log)
        self.client = GrpcStateClient(lambda _layer: self.address)

    @property
    def address(self) -> str:
        """Where it listens; empty before it does."""
        endpoint = read_endpoint(self.root)
        return endpoint.address if endpoint is not None else ""

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._child.poll() is None

    def look(self, target: int, at_least: int = -1) -> tuple[int, bytes]:
        """The offset of the copy, and what its entries say of it."""
        found = self.client.look_up(Address(TASK, A_1, target), at_least, list(SAME), ASK_S).result()
        assert found.found[0] == found.found[1]
        return found.offset, found.found[0]

    def await_answer(self, target: int) -> None:
        """Wait until it has read of the target epoch and answers for it."""

        def look() -> bool:
            try:
                return bool(self.look(target))
            except (HolderUnavailableError, StaleRequestError):
                return False

        wait_for(f"it answers epoch {target}", look, LIMIT_S, self.log.read_text)

    def terminate(self) -> None:
        """SIGTERM."""
        self._child.terminate()

    def require_clean_exit(self) -> None:
        """Wait for exit status 0."""
        assert self._child.wait(LIMIT_S) == 0, self.log.read_text()

    def close(self) -> None:
        """Leave no process behind."""
        self.client.close()
        if self.running:
            self._child.kill()
            self._child.wait(LIMIT_S)


class ControlLog:
    """Writes control records as a coordinator does."""

    def __init__(self, app: str, bootstrap: str) -> None:
        self._kafka = ConfluentKafka(bootstrap)
        self._topic = control_topic(app)
        self._producer = self._kafka.producer(transactional_id=f"{app}.coordinator", name="coordinator")

    def create(self) -> None:
        admin = self._kafka.admin()
        admin.create([TopicSpec(self._topic, 1, {"cleanup.policy": "compact"})], 1, LIMIT_S)
        admin.close()
        self._producer.init_transactions(LIMIT_S)

    def write(self, record: Assigned | Done) -> None:
        self._producer.begin()
        self._producer.produce(self._topic, 0, control_key(record), encode_control(record))
        self._producer.commit(LIMIT_S)

    def assign(self, epoch: int, owner: str, *layers: Layer) -> None:
        self.write(Assigned(*TASK, epoch, owner, (), layers, Manner(), 1))

    def done(self, epoch: int, owner: str) -> None:
        self.write(Done(*TASK, epoch, owner))

    def close(self) -> None:
        self._producer.close()


Start = Callable[..., StateManager]


@pytest.fixture
def app(unique_name) -> str:
    return unique_name("shop")


@pytest.fixture
def control(app, broker) -> Iterator[ControlLog]:
    log = ControlLog(app, broker.bootstrap)
    yield log
    log.close()


@pytest.fixture
def owner(tmp_path) -> Iterator[Owner]:
    owner = Owner(tmp_path / "a")
    yield owner
    owner.kill()


@pytest.fixture
def serve(tmp_path, app, broker) -> Iterator[Start]:
    """Starts state managers of the replica "a"."""
    started: list[StateManager] = []

    def start(*options: str) -> StateManager:
        (tmp_path / "a").mkdir(exist_ok=True)
        started.append(StateManager(tmp_path / "a", app, broker.bootstrap, *options))
        return started[-1]

    yield start
    for each in started:
        each.close()


def test_a_move_is_served_while_the_owner_works_is_stopped_and_is_dead(control, owner, serve):
    control.create()
    control.assign(1, "a")
    owner.start()
    manager = serve()
    manager.await_answer(2)
    offset, said = manager.look(2)
    assert said == b"%d" % offset

    owner.pause()
    control.assign(2, "b", A_1)
    described = manager.client.describe(Address(TASK, A_1, 2), -1, ASK_S).result()
    stopped_at = described.meta.offset
    assert manager.look(2, stopped_at) == (stopped_at, b"%d" % stopped_at)

    owner.kill()
    assert manager.look(2, stopped_at) == (stopped_at, b"%d" % stopped_at)
    entries, cursor = {}, b""
    while cursor is not None:
        chunk = manager.client.bins(Address(TASK, A_1, 2), stopped_at, 0, 255, cursor, ASK_S).result()
        entries |= dict(chunk.entries)
        cursor = chunk.next
    assert len(entries) > 1000
    assert entries[SAME[0]] == b"%d" % stopped_at

    control.assign(3, "c", Layer("b", 2), A_1)
    wait_for("epoch 2 is refused", lambda: _refused(manager, 2), LIMIT_S)
    manager.await_answer(3)
    control.done(3, "c")
    wait_for("the copy is deleted", lambda: not epochs_of(manager.root, TASK), LIMIT_S, manager.log.read_text)
    with pytest.raises(NoSuchCopyError):
        manager.look(3)
    manager.terminate()
    manager.require_clean_exit()
    assert manager.address == ""


def _refused(manager: StateManager, target: int) -> bool:
    try:
        manager.look(target)
    except StaleRequestError as error:
        return not error.later
    return False


def test_a_read_of_the_living_owner_is_confirmed_once_the_log_is_read(control, owner, serve):
    control.create()
    control.assign(1, "a")
    control.done(1, "a")
    owner.start()
    manager = serve()
    manager.await_answer(2)

    def look() -> bool:
        read = manager.client.get("a", TASK, 1, [b"k000001"], ASK_S).result()
        return read.confirmed and read.owner == "a"

    wait_for("it is confirmed", look, LIMIT_S, manager.log.read_text)


def test_a_control_log_that_is_made_later_is_followed_from_then_on(control, owner, serve):
    owner.start()
    manager = serve()
    wait_for("it serves", lambda: manager.address or None, LIMIT_S, manager.log.read_text)
    with pytest.raises(StaleRequestError):
        manager.look(2)
    control.create()
    control.assign(2, "b", A_1)
    manager.await_answer(2)


def test_after_sigterm_it_stays_for_those_who_need_its_copies_and_no_longer(control, owner, serve):
    control.create()
    control.assign(2, "b", A_1)
    owner.start()
    manager = serve("--leave-after-s", "300")
    manager.await_answer(2)
    owner.kill()
    manager.terminate()
    wait_for("it says why it stays", lambda: "may need count/3@1" in manager.log.read_text(), LIMIT_S)
    manager.await_answer(2)
    control.done(2, "b")
    manager.require_clean_exit()


def test_after_sigterm_it_does_not_wait_for_an_owner_that_asks_no_more(control, owner, serve):
    control.create()
    control.assign(2, "b", A_1)
    owner.start()
    manager = serve("--leave-after-s", "300")
    manager.await_answer(2)
    owner.kill()
    manager.terminate()
    manager.require_clean_exit()
    assert "may need count/3@1" in manager.log.read_text()


def test_copies_of_its_own_tasks_keep_it_only_until_they_would_have_been_moved(control, owner, serve):
    control.create()
    control.assign(1, "a")
    owner.start()
    manager = serve("--leave-after-s", "300")
    manager.await_answer(2)
    owner.kill()
    manager.terminate()
    manager.require_clean_exit()


def test_without_being_told_to_stay_it_leaves_at_once(control, owner, serve):
    control.create()
    control.assign(2, "b", A_1)
    owner.start()
    manager = serve()
    manager.await_answer(2)
    manager.terminate()
    manager.require_clean_exit()


def test_it_tells_the_coordinator_its_address(owner, serve):
    heard: list[tuple[str, dict]] = []

    class Coordinator(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            heard.append((self.path, json.loads(body)))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Coordinator)) as server:
        owner.start()
        manager = serve("--coordinator", f"http://127.0.0.1:{server.server_port}")
        wait_for("two heartbeats", lambda: len(heard) > 1, LIMIT_S, manager.log.read_text)
    assert heard[-1] == ("/holders/a", {"address": manager.address})
