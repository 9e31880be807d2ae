"""Turns that take long: the coordinator was stopped, or Kafka keeps it in a fence. Who was silent stays silent."""

from __future__ import annotations

import pytest

from statemgr.errors import ProducerLostError
from tests.unit.towpath.coordinator.application import STAGE, Application
from towpath.coordinator.fencer import FENCE_TIMEOUT_S
from towpath.coordinator.fleet import Presence


class Hanging:
    """Kafka has no answer to fences of some replicas; meanwhile the others go on to be heard, and time passes.

    Attributes:
        replicas: whose fences hang.
        tried: replicas in the order of their fences, hanging or not.
    """

    def __init__(self, application: Application, *replicas: str) -> None:
        self.replicas = set(replicas)
        self.tried: list[str] = []
        self._application = application
        fencer = application.heard_by._actions._fencer
        self._fence, fencer.fence = fencer.fence, self.fence  # type: ignore[method-assign]

    def fence(self, stage: str, replica: str) -> float:
        self.tried.append(replica)
        if replica not in self.replicas:
            return self._fence(stage, replica)
        for _ in range(round(FENCE_TIMEOUT_S / 0.25)):
            self._application.clock.advance(0.25)
            for other in self._application.replicas.values():
                other.beat(self._application.heard_by)
        self._application.kafka.fail_next("init_transactions", ProducerLostError("no answer"), client="c1-fence")
        return self._fence(stage, replica)


@pytest.fixture
def application() -> Application:
    """Four replicas, eight tasks, at rest."""
    made = Application(partitions=8)
    for number in range(4):
        made.add(f"count-{number}")
    made.settle()
    made.run(4.0)
    return made


def presence(application: Application, replica: str) -> Presence:
    with application.heard_by.look() as facts:
        return facts.presence(STAGE, replica)


def report_dead(application: Application, *names: str) -> None:
    for name in names:
        application.replicas[name].die()
        application.heard_by.died(STAGE, name)


def fenced(application: Application) -> list[str]:
    return [record["replica"] for record in application.log() if record["type"] == "fenced"]


# --- what a gap between turns proves ---


def test_a_fence_that_keeps_failing_hides_no_other_silence(application: Application) -> None:
    Hanging(application, "count-0")
    report_dead(application, "count-0")
    application.run(0.5)
    application.replicas["count-1"].die()
    application.until("count-1 is found silent", lambda: presence(application, "count-1").gone, 30.0)
    application.until("it is fenced", lambda: "count-1" in fenced(application), 30.0)


def test_a_fence_that_keeps_failing_lets_an_owner_that_never_comes_be_judged(application: Application) -> None:
    """After the coordinator's restart: it knows the owner from the log only."""
    application.replicas["count-1"].die()
    application.coordinators.clear()
    application.coordinate("c1")
    application.run(4.0)
    Hanging(application, "count-0")
    report_dead(application, "count-0")
    application.until("count-1 is found silent", lambda: presence(application, "count-1").gone, 60.0)


@pytest.mark.parametrize("reported", [True, False])
def test_who_was_gone_before_a_pause_is_gone_behind_it(application: Application, reported: bool) -> None:
    application.replicas["count-0"].die()
    if reported:
        application.heard_by.died(STAGE, "count-0")
    application.run(4.0)
    assert fenced(application) == ["count-0"]
    application.clock.advance(58.0)
    for _ in range(100):
        application.step()
        assert presence(application, "count-0").gone or presence(application, "count-0") is Presence.EXPECTED
        with application.heard_by.look() as facts:
            assert "count-0" not in facts.members(STAGE)


def test_who_was_nearly_silent_before_a_pause_has_time_to_be_heard_behind_it(application: Application) -> None:
    """Its heartbeats wait in the socket, and take about a second to be heard."""
    delayed = application.replicas["count-0"]
    delayed.beats = False
    application.run(2.8)
    application.clock.advance(30.0)
    application.run(0.9)
    assert presence(application, "count-0") is Presence.PRESENT
    delayed.beats = True
    application.run(5.0)
    assert fenced(application) == []


def test_who_was_nearly_silent_before_a_pause_and_says_nothing_behind_it_is_silent(application: Application) -> None:
    application.replicas["count-0"].die()
    application.run(2.8)
    application.clock.advance(30.0)
    application.run(1.3)
    assert fenced(application) == ["count-0"]


def test_an_owner_that_does_not_release_is_fenced_whatever_pauses_come(application: Application) -> None:
    for replica in application.replicas.values():
        replica.releases = False
    application.add("count-4")
    application.until("it is asked to", lambda: any(True for record in application.log() if record.get("epoch") == 2))
    turned_s = 0.0
    while not fenced(application):
        application.clock.advance(2.0)
        for replica in application.replicas.values():
            replica.beat(application.heard_by)
        application.run(0.5)
        turned_s += 0.5
        assert turned_s < 12.0
    assert turned_s >= 9.0, "a pause of ours is no delay of its own"


# --- fences of several replicas ---


def test_the_intents_of_all_failures_are_logged_before_the_first_fence_and_hang_behind_none(
    application: Application,
) -> None:
    hanging = Hanging(application, "count-0", "count-1", "count-2")
    report_dead(application, "count-0", "count-1", "count-2")
    began_s = application.clock.monotonic_s()
    application.heard_by.tick()
    owners = [record["owner"] for record in application.log() if record["type"] == "assigned" and record["epoch"] == 2]
    assert owners == ["count-3"] * 6
    assert hanging.tried == ["count-0"]
    assert application.clock.monotonic_s() - began_s < FENCE_TIMEOUT_S + 0.5


def test_fences_that_hang_keep_no_other_from_its_turn(application: Application) -> None:
    hanging = Hanging(application, "count-0", "count-1")
    report_dead(application, "count-0", "count-1", "count-2")
    application.until("the third is fenced", lambda: "count-2" in fenced(application), 3 * FENCE_TIMEOUT_S + 1.0)
    hanging.replicas.clear()
    application.until("all are fenced", lambda: len(set(fenced(application))) == 3)
    application.until("the fourth owns all", lambda: application.counts() == {"count-3": 8})


def test_many_quick_fences_are_done_in_one_turn(application: Application) -> None:
    report_dead(application, "count-0", "count-1", "count-2")
    application.heard_by.tick()
    assert fenced(application) == ["count-0", "count-1", "count-2"]
