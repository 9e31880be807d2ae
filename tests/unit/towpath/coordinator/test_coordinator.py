"""The whole coordinator with replicas in memory: scaling, draining, failures, two coordinators, restarts."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from statemgr.control.records import Assigned, ControlRecord, Strategy
from statemgr.errors import KafkaUnavailableError, ProducerLostError
from tests.unit.towpath.coordinator.application import APP, STAGE, Application
from tests.unit.towpath.coordinator.facts_of import beat
from towpath.coordinator.coordinator import Coordinator
from towpath.coordinator.errors import NotLeadingError, RefusedError
from towpath.coordinator.messages import MoveRequest, ScaleRequest
from towpath.coordinator.views import migration_statuses


@pytest.fixture
def application() -> Application:
    """Two replicas, four tasks, at rest."""
    made = Application()
    made.add("count-0")
    made.add("count-1")
    made.settle()
    return made


def kinds(application: Application, *wanted: str) -> list[str]:
    """The log in short: record kinds with replica or owner, of the kinds named."""
    return [
        f"{record['type']} {record.get('replica', record.get('owner', ''))}".strip()
        for record in application.log()
        if record["type"] in wanted
    ]


def epochs(application: Application) -> dict[int, int]:
    return {task.partition: known.epoch for task, known in application.heard_by.view.tasks.items()}


# --- scale ---


def test_replicas_that_start_together_get_equal_parts_at_once(application: Application) -> None:
    assert application.counts() == {"count-0": 2, "count-1": 2}
    assert set(epochs(application).values()) == {1}


def test_a_new_replica_is_warned_and_then_gets_its_share_and_nobody_is_fenced(application: Application) -> None:
    new = application.add("count-2")
    application.settle()
    assert application.counts() == {"count-0": 2, "count-1": 1, "count-2": 1}
    assert new.hints, "it was told before"
    assert kinds(application, "fenced") == []
    assert sorted(epochs(application).values()) == [1, 1, 1, 2]


def test_fewer_replicas_free_the_last_by_name(application: Application) -> None:
    application.add("count-2")
    application.settle()
    application.scale(2)
    application.settle()
    assert application.counts() == {"count-0": 2, "count-1": 2, "count-2": 0}


def test_a_planned_move_pauses_only_what_moves(application: Application) -> None:
    """Who keeps its tasks never lets go of them (I7)."""
    before = dict(application.replicas["count-0"].owned)
    application.scale(1)
    application.run(0.1)
    while not application.settled():
        application.step()
        assert before.items() <= application.replicas["count-0"].owned.items()


@pytest.mark.parametrize("strategy", list(Strategy))
def test_every_strategy_moves_tasks(application: Application, strategy: Strategy) -> None:
    application.scale(None, strategy)
    application.run(0.2)
    application.add("count-2")
    application.settle()
    assert application.counts() == {"count-0": 2, "count-1": 1, "count-2": 1}
    with application.heard_by.look() as facts:
        moves = migration_statuses(facts)
    assert {move.strategy for move in moves} == {strategy}
    assert {move.step for move in moves} == {"done"}
    assert len(moves) == (4 if strategy is Strategy.RESTART else 1)


def test_a_standby_is_told_to_keep_a_copy_all_the_time_and_then_gets_the_task(application: Application) -> None:
    application.scale(None, Strategy.STANDBY)
    application.run(1.0)
    hinted = {name: set(replica.hints) for name, replica in application.replicas.items()}
    assert hinted == {
        "count-0": set(application.replicas["count-1"].owned),
        "count-1": set(application.replicas["count-0"].owned),
    }
    assert application.heard_by.view.of(next(iter(application.heard_by.view.tasks))).epoch == 1


def test_without_ready_a_move_is_made_after_its_deadline(application: Application) -> None:
    application.add("count-2").prepares = False
    took_s = application.until("it owns a task", lambda: application.counts()["count-2"] == 1)
    assert 5.0 <= took_s <= 7.5


def test_the_source_is_told_to_watch_the_log_before_it_has_to_let_go(application: Application) -> None:
    application.add("count-2")
    alerted = False
    while application.counts()["count-2"] == 0:
        application.step()
        alerted = alerted or application.replicas["count-1"].answer.alert_s > 0
    assert alerted


# --- rescale during rescale ---


def test_a_move_that_was_only_hinted_is_dropped_when_it_is_not_wanted_any_more(application: Application) -> None:
    application.add("count-2").prepares = False
    application.until("it is told", lambda: bool(application.replicas["count-2"].hints))
    application.scale(2)
    application.settle()
    assert set(epochs(application).values()) == {1}
    with application.heard_by.look() as facts:
        assert [move.step for move in migration_statuses(facts)] == ["dropped"]


def test_a_move_that_was_logged_is_completed_and_then_taken_on(application: Application) -> None:
    application.replicas["count-1"].releases = False
    application.add("count-2")
    application.until("a move is logged", lambda: 2 in epochs(application).values())
    application.scale(1)
    application.run(1.0)
    assert max(epochs(application).values()) == 2
    application.replicas["count-1"].releases = True
    application.settle()
    assert application.counts() == {"count-0": 4, "count-1": 0, "count-2": 0}
    assert max(epochs(application).values()) == 3


def test_scaling_out_and_in_again_and_again_ends_balanced(application: Application) -> None:
    for name in ("count-2", "count-3", "count-4"):
        application.add(name)
        application.run(0.6)
    for count in (2, 5, 1, 3):
        application.scale(count)
        application.run(0.4)
    application.settle()
    assert sorted(application.counts().values()) == [0, 0, 1, 1, 2]
    assert kinds(application, "fenced") == []


# --- drain ---


def test_a_draining_replica_may_go_once_all_is_released(application: Application) -> None:
    leaving = application.replicas["count-0"]
    leaving.draining = True
    application.until("it is drained", lambda: leaving.answer.drained)
    assert leaving.owned == {}
    leaving.stopped = True
    application.run(0.3)
    leaving.die()
    application.run(5.0)
    assert application.counts() == {"count-1": 4}
    assert kinds(application, "fenced") == []


def test_with_nobody_to_take_over_a_draining_replica_may_go_at_once(application: Application) -> None:
    for replica in application.replicas.values():
        replica.draining = True
    application.until("both may go", lambda: all(r.answer.drained for r in application.replicas.values()), 2.0)
    assert set(epochs(application).values()) == {1}


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_replica_that_is_just_given_a_task_is_not_told_that_it_may_go(
    application: Application, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """It asks while the assignment is decided and not written, or written and not read back."""
    new = application.add("count-2")
    writer = application.heard_by._leadership.writer
    write = writer.write
    answers: list[bool] = []

    def ask(records: Sequence[ControlRecord]) -> None:
        if any(isinstance(record, Assigned) and record.owner == new.name for record in records):
            new.draining = True
            new.beat(application.heard_by)
            answers.append(new.answer.drained)

    def written(records: Sequence[ControlRecord]) -> None:
        if moment == "before":
            ask(records)
        write(records)
        if moment == "after":
            ask(records)

    monkeypatch.setattr(writer, "write", written)
    application.until("it was given a task", lambda: bool(answers))
    assert not any(answers)
    application.until("it may go", lambda: new.answer.drained)
    assert new.owned == {}


def test_owners_of_tasks_whose_holder_leaves_hurry() -> None:
    application = Application()
    application.add("count-0")
    application.settle()
    application.add("count-1").completes = False
    application.settle()
    application.replicas["count-0"].draining = True
    application.run(0.6)
    assert application.replicas["count-1"].answer.hurry != []


# --- failures ---


def test_a_silent_replica_loses_its_tasks_intent_before_fence(application: Application) -> None:
    order: list[str] = []
    application.kafka.on_call(lambda client, call: order.append(f"{client} {call}"))
    silent = application.replicas["count-0"]
    silent.alive = silent.beats = False
    took_s = application.until("the other owns all", lambda: application.counts()["count-1"] == 4)
    assert 2.7 <= took_s <= 3.5
    assert kinds(application, "fenced") == ["fenced count-0"]
    commits = [index for index, call in enumerate(order) if call == "c1 commit"]
    fences = [index for index, call in enumerate(order) if call == "c1-fence init_transactions"]
    assert len(commits) == 2
    assert len(fences) == 1
    assert commits[0] < fences[0] < commits[1]
    log = [record["type"] for record in application.log()]
    assert log.index("fenced") > max(
        i for i, r in enumerate(application.log()) if r.get("epoch") == 2 and "owner" in r and r["type"] == "assigned"
    )


def test_a_replica_that_wakes_up_after_its_fence_can_write_no_more_and_joins_again(application: Application) -> None:
    sleeping = application.replicas["count-0"]
    sleeping.alive = sleeping.beats = False
    application.until("the other owns all", lambda: application.counts()["count-1"] == 4)
    with pytest.raises(ProducerLostError):
        sleeping.work()
    sleeping.alive = sleeping.beats = True
    application.settle()
    assert application.counts() == {"count-0": 2, "count-1": 2}


def test_an_open_transaction_of_a_stopped_replica_ends_with_its_fence(application: Application) -> None:
    application.replicas["count-0"].leave_open()
    application.until("the other owns all", lambda: application.counts()["count-1"] == 4, 5.0)


def test_a_reported_death_is_acted_on_at_once(application: Application) -> None:
    application.replicas["count-0"].die()
    application.heard_by.died(STAGE, "count-0")
    assert application.until("the other owns all", lambda: application.counts() == {"count-1": 4}) <= 0.3


def test_late_words_of_a_life_that_has_ended_are_not_heard(application: Application) -> None:
    application.replicas["count-0"].alive = False
    application.heard_by.died(STAGE, "count-0")
    application.until("the other owns all", lambda: application.counts() == {"count-1": 4}, 1.0)


def test_the_only_replica_goes_on_under_the_same_epoch_after_a_crash() -> None:
    application = Application()
    only = application.add("count-0")
    application.settle()
    only.die()
    application.heard_by.died(STAGE, "count-0")
    application.run(10.0)
    only.restart()
    application.settle()
    assert set(epochs(application).values()) == {1}
    assert kinds(application, "fenced") == []


def test_a_replica_that_does_not_release_is_fenced_and_loses_everything(application: Application) -> None:
    application.replicas["count-1"].releases = False
    application.add("count-2")
    application.until("a move is logged", lambda: 2 in epochs(application).values())
    took_s = application.until("it is fenced", lambda: bool(kinds(application, "fenced")))
    assert 9.5 <= took_s <= 10.5
    application.replicas["count-1"].releases = True
    with pytest.raises(ProducerLostError):
        application.replicas["count-1"].work()
    application.settle()


def test_a_fence_that_is_not_done_in_time_is_tried_again(application: Application) -> None:
    application.kafka.fail_next("init_transactions", ProducerLostError("no answer"), client="c1-fence")
    application.replicas["count-0"].die()
    application.heard_by.died(STAGE, "count-0")
    took_s = application.until("the other owns all", lambda: application.counts() == {"count-1": 4})
    assert 1.0 <= took_s <= 1.5
    assert kinds(application, "fenced") == ["fenced count-0"]


# --- the coordinator itself ---


def test_silence_during_the_coordinators_own_pause_proves_nothing(application: Application) -> None:
    application.clock.advance(60)
    application.heard_by.tick()
    application.run(2.0)
    assert set(epochs(application).values()) == {1}


def test_a_restarted_coordinator_waits_for_replicas_and_changes_nothing(application: Application) -> None:
    application.coordinators.clear()
    application.coordinate("c2")
    application.run(12.0)
    assert set(epochs(application).values()) == {1}
    assert application.heard_by.view.term == 2


def test_a_restarted_coordinator_finishes_what_was_begun(application: Application) -> None:
    """A crash between intent and fence: the successor sees the intent in the log."""

    class CrashError(BaseException):
        pass

    def crash(client: str, call: str) -> None:
        if client == "c1-fence" and call == "init_transactions":
            raise CrashError

    application.replicas["count-0"].die()
    application.heard_by.died(STAGE, "count-0")
    application.kafka.on_call(crash)
    with pytest.raises(CrashError):
        application.run(1.0)
    assert kinds(application, "fenced") == []
    application.kafka.on_call(None)
    application.coordinators.clear()
    application.coordinate("c2")
    application.until("the other owns all", lambda: application.counts() == {"count-1": 4}, 12.0)
    assert kinds(application, "fenced") == ["fenced count-0"]


def test_the_newer_of_two_coordinators_leads_and_the_older_stands_down(application: Application) -> None:
    older = application.heard_by
    newer = application.coordinate("c2")
    older.scale(ScaleRequest(stage=STAGE, replicas=1))
    application.run(1.0)
    assert (older.leading, newer.leading) == (False, True)
    assert "does not lead" in (older.problem or "")
    assert application.settled(), "what the older was asked for is not done"
    with pytest.raises(NotLeadingError, match=r"newest is c2 \(term 2\)"):
        older.scale(ScaleRequest(stage=STAGE, replicas=1))
    application.run(60.0)
    assert (older.leading, newer.leading) == (False, True)


def test_one_who_asks_a_coordinator_that_stands_down_is_told(application: Application) -> None:
    older = application.heard_by
    wish = older.scale(ScaleRequest(stage=STAGE, replicas=1))
    application.coordinate("c2")
    application.run(0.2)
    assert wish.decided.is_set()
    assert "does not lead any more" in (wish.error or "")


def test_the_coordinator_that_replicas_talk_to_leads_in_the_end(application: Application) -> None:
    older = application.heard_by
    newer = application.coordinate("c2")
    application.heard_by = older
    older.scale(ScaleRequest(stage=STAGE, replicas=None))
    application.run(35.0)
    assert (older.leading, newer.leading, older.view.term) == (True, False, 3)
    application.run(60.0)
    assert (older.leading, newer.leading, older.view.term) == (True, False, 3)


def test_one_that_lost_its_producer_leads_again_if_there_is_no_newer(application: Application) -> None:
    application.kafka.fail_next("commit", ProducerLostError("no definite answer"), client="c1", after=True)
    application.scale(None)
    application.run(0.3)
    assert not application.heard_by.leading
    assert application.replicas["count-0"].answer.known is False
    application.run(4.0)
    assert application.heard_by.leading
    assert application.heard_by.view.term == 2
    application.add("count-2")
    application.settle()


@pytest.mark.parametrize("skip", [0, 1], ids=["first", "a later one"])
def test_its_own_word_whose_answer_was_lost_is_no_newer_coordinators(application: Application, skip: int) -> None:
    """The record is in the log, and its writer does not know."""
    restarted = Coordinator(
        APP, list(application.heard_by.stages.values()), application.kafka, application.clock, name="c2"
    )
    application.coordinators = [restarted]
    application.heard_by = restarted
    if skip:
        restarted.start()
        application.kafka.fail_next("begin", ProducerLostError("no definite answer"), client="c2")
        application.scale(None)
    application.kafka.fail_next("commit", ProducerLostError("no definite answer"), client="c2", after=True)
    restarted.begin()
    application.run(8.0)
    assert restarted.leading
    assert (restarted.view.leader, restarted.view.term) == ("c2", 3 + skip)


def test_one_that_stands_by_follows_moves_to_their_end_and_rests(application: Application) -> None:
    older = application.heard_by
    application.replicas["count-1"].releases = False
    application.add("count-2")
    application.until("a move is logged", lambda: 2 in epochs(application).values())
    application.coordinate("c2")
    application.run(0.5)
    assert (older.leading, older.busy) == (False, False)
    application.replicas["count-1"].releases = True
    application.settle()
    with older.look() as facts:
        assert [move.step for move in migration_statuses(facts)] == ["done"]


def test_a_coordinator_that_could_not_begin_tries_again(application: Application) -> None:
    application.coordinators.clear()
    application.kafka.fail_next("init_transactions", ProducerLostError("no answer"), client="c2")
    with pytest.raises(ProducerLostError):
        application.coordinate("c2")
    second = Coordinator(
        APP, list(application.heard_by.stages.values()), application.kafka, application.clock, name="c3"
    )
    application.kafka.fail_next("init_transactions", ProducerLostError("no answer"), client="c3")
    application.coordinators.append(second)
    application.heard_by = second
    second.begin()
    assert not second.leading
    assert second.problem == "does not lead: no answer"
    application.run(3.5)
    assert second.leading
    assert second.problem is None


def test_it_decides_only_when_it_has_read_back_what_it_wrote() -> None:
    """Or an epoch would be used twice: readers see a commit later than its writer (R6)."""
    application = Application(marker_lag_s=0.4)
    for name in ("count-0", "count-1", "count-2"):
        application.add(name)
        application.run(0.3)
    application.settle()
    seen = [(r["partition"], r["epoch"]) for r in application.log() if r["type"] == "assigned"]
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize("call", ["consume", "bounds"])
def test_replicas_are_answered_while_the_log_is_being_read(application: Application, call: str) -> None:
    """Reading it may wait seconds for Kafka: replicas would be without hints, and seem silent."""
    answered: list[bool] = []

    def beat_meanwhile(client: str, called: str) -> None:
        if (client, called) == ("c1-control", call):
            thread = threading.Thread(
                target=application.heard_by.heartbeat, args=(STAGE, "count-0", beat(incarnation="count-0-1"))
            )
            thread.start()
            thread.join(1.0)
            answered.append(not thread.is_alive())

    application.kafka.fail_next("consume", KafkaUnavailableError("all brokers are down"), client="c1-control", skip=1)
    application.kafka.on_call(beat_meanwhile)
    application.run(0.3)
    application.kafka.on_call(None)
    assert answered
    assert all(answered)
    application.scale(1)
    application.settle()
    assert application.counts() == {"count-0": 4, "count-1": 0}


# --- requests and hints ---


def test_a_task_goes_to_whom_somebody_asked_for_and_stays(application: Application) -> None:
    partition = next(iter(application.replicas["count-0"].owned))
    assert application.heard_by.move(MoveRequest(stage=STAGE, partition=partition, replica="count-1"))
    application.until("it moved", lambda: partition in application.replicas["count-1"].owned)
    application.run(5.0)
    assert partition in application.replicas["count-1"].owned
    assert not application.heard_by.move(MoveRequest(stage=STAGE, partition=partition, replica="count-1"))


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (MoveRequest(stage="cuont", partition=0, replica="count-1"), "did you mean 'count'"),
        (MoveRequest(stage=STAGE, partition=4, replica="count-1"), "those of count are 0 … 3"),
        (MoveRequest(stage=STAGE, partition=0, replica="count-9"), r"they are: count-0, count-1"),
    ],
)
def test_a_request_that_names_nothing_there_is_refused(
    application: Application, request_: MoveRequest, text: str
) -> None:
    with pytest.raises(RefusedError, match=text):
        application.heard_by.move(request_)


def gather(application: Application) -> None:
    """Somebody asks for every task to be at one replica."""
    for partition in range(4):
        application.heard_by.move(MoveRequest(stage=STAGE, partition=partition, replica="count-1"))
    application.until("all have moved", lambda: application.counts() == {"count-0": 0, "count-1": 4})


def test_moves_hold_until_the_stage_is_scaled(application: Application) -> None:
    gather(application)
    application.run(5.0)
    assert application.counts() == {"count-0": 0, "count-1": 4}
    application.scale(None)
    application.until("the parts are equal again", lambda: application.counts() == {"count-0": 2, "count-1": 2})


def test_moves_hold_when_a_scaling_comes_to_nothing(application: Application) -> None:
    gather(application)
    application.kafka.fail_next("begin", ProducerLostError("no definite answer"), client="c1")
    wish = application.heard_by.scale(ScaleRequest(stage=STAGE, replicas=2))
    application.run(10.0)
    assert wish.error is not None
    assert application.heard_by.leading
    assert application.counts() == {"count-0": 0, "count-1": 4}


def test_an_unknown_stage_is_answered_with_nothing(application: Application) -> None:
    assert not application.heard_by.heartbeat("other", "x", beat()).known
