"""A pod's supervisor over real, small processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.harness.waiting import wait_for

pytestmark = pytest.mark.slow

LIMIT_S = 20.0

SUPERVISOR = """
import asyncio, sys
from towpath.launch.pod import Part, PodPolicy
from towpath.launch.supervise import Supervisor
policy = PodPolicy(stateful=True, grace_s=float(sys.argv[1]))
commands = {Part.STAGE: [sys.executable, "-uc", sys.argv[2]], Part.STATE_MANAGER: [sys.executable, "-uc", sys.argv[3]]}
sys.exit(asyncio.run(Supervisor(policy, commands, lambda: print("REPORTED", flush=True)).run()))
"""

PATIENT = """
import os, signal, time
def leave(*_):
    print("{name} leaves", flush=True)
    time.sleep({leave_s})
    raise SystemExit({status})
signal.signal(signal.SIGTERM, leave)
print("{name}", os.getpid())
while True: time.sleep(0.05)
"""


def patient(name: str, leave_s: float = 0.0, status: int = 0) -> str:
    return PATIENT.format(name=name, leave_s=leave_s, status=status)


class Pod:
    def __init__(self, log: Path, stage: str, state: str, grace_s: float = 30.0) -> None:
        self._log = log
        with log.open("wb") as file:
            self.child = subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(SUPERVISOR), str(grace_s), stage, state],
                stdout=file,
                stderr=file,
            )

    def log(self) -> str:
        return self._log.read_text()

    def pids(self, name: str) -> list[int]:
        return [int(pid) for pid in re.findall(rf"\| {name} (\d+)$", self.log(), re.MULTILINE)]

    def await_pids(self, name: str, count: int = 1) -> list[int]:
        return wait_for(
            f"{name} started {count} times",
            lambda: pids if len(pids := self.pids(name)) >= count else None,
            LIMIT_S,
            self.log,
        )


@pytest.fixture
def pod(tmp_path):
    pods: list[Pod] = []

    def start(stage: str, state: str, **options) -> Pod:
        pods.append(Pod(tmp_path / "log", stage, state, **options))
        return pods[-1]

    yield start
    for made in pods:
        made.child.kill()
        made.child.wait()


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_every_line_has_its_process_s_name_and_the_stage_s_status_is_kept(pod):
    made = pod(patient("one", status=7), patient("two"))
    made.await_pids("one"), made.await_pids("two")
    made.child.terminate()
    assert made.child.wait(LIMIT_S) == 7, made.log()
    assert re.search(r"^stage    \| one \d+$", made.log(), re.MULTILINE)
    assert re.search(r"^statemgr \| two \d+$", made.log(), re.MULTILINE)
    assert made.log().index("one leaves") < made.log().index("two leaves"), "the state manager outlives the stage"


def test_a_killed_stage_is_reported_and_started_again(pod):
    made = pod(patient("one"), patient("two"))
    (first,) = made.await_pids("one")
    os.kill(first, signal.SIGKILL)
    made.await_pids("one", 2)
    assert "REPORTED" in made.log()
    made.child.terminate()
    assert made.child.wait(LIMIT_S) == 0, made.log()


def test_what_does_not_end_within_the_grace_period_is_killed(pod):
    made = pod(patient("one"), patient("two", leave_s=600), grace_s=1.0)
    made.await_pids("one")
    (state,) = made.await_pids("two")
    made.child.terminate()
    assert made.child.wait(LIMIT_S) == 0, made.log()
    assert "the grace period is over" in made.log()
    assert gone(state)


def test_a_second_signal_ends_it_at_once(pod):
    made = pod(patient("one", leave_s=600), patient("two"))
    made.await_pids("one"), made.await_pids("two")
    made.child.terminate()
    wait_for("the stage was asked", lambda: "one leaves" in made.log(), LIMIT_S, made.log)
    made.child.send_signal(signal.SIGINT)
    made.child.wait(LIMIT_S)
    assert "ending at once" in made.log()


def test_a_killed_supervisor_leaves_nothing_behind(pod):
    made = pod(patient("one"), patient("two"))
    pids = made.await_pids("one") + made.await_pids("two")
    made.child.kill()
    wait_for("both are gone", lambda: all(map(gone, pids)), LIMIT_S)


def test_a_long_line_and_one_without_an_end_are_passed_on(pod):
    made = pod("print('x' * 300_000); print('last', end='')", patient("two"))
    assert made.child.wait(LIMIT_S) == 0, made.log()
    lines = made.log().splitlines()
    assert "stage    | " + "x" * 300_000 in lines
    assert "stage    | last" in lines
