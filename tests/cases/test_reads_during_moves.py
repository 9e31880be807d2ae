"""Reads of a table from outside: any replica may be asked, and no answer is silently old."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import msgspec
import pytest

from statemgr.control.records import Strategy
from statemgr.errors import HolderUnavailableError, NoSuchCopyError
from statemgr.layout import changelog_key
from statemgr.migration.ports import Found
from statemgr.testing.kafka import FakeKafka
from statemgr.types import TaskId
from tests.cases.clusters import KEYS, grown, running, settled, work
from tests.unit.towpath.stage.cluster import STAGE, TASKS, Cluster, rows_of
from tests.unit.towpath.stage.plans import CHANGELOG
from towpath.testing.records import read_records

TIMEOUT_S = 1.0


@dataclass(frozen=True)
class Answer:
    """Value of a key; or why there is none, and who may know more."""

    value: int | None
    refusal: str | None = None
    owner: str | None = None
    epoch: int = 0
    offset: int = -1


def ask(cluster: Cluster, holder: str, auction: int) -> Answer:
    """Ask one state manager."""
    task = TaskId(STAGE, auction % TASKS)
    try:
        read = cluster.services[holder].get(task, 0, [str(auction).encode()], TIMEOUT_S)
    except NoSuchCopyError as error:
        return Answer(None, "no copy here", str(error).rpartition(" ")[2])
    except HolderUnavailableError:
        return Answer(None, "unavailable")
    (found,) = read.found
    if found is Found.UNKNOWN:
        return Answer(None, "still elsewhere", read.owner)
    value = msgspec.json.decode(found) if isinstance(found, bytes) else None
    refusal = None if read.confirmed else "unconfirmed"
    return Answer(value, refusal, read.owner, read.epoch, read.offset)


def redirected(cluster: Cluster, holder: str, auction: int) -> Answer:
    """Ask one, and whomever it names."""
    answer = ask(cluster, holder, auction)
    if answer.refusal is not None and answer.owner in cluster.services and answer.owner != holder:
        answer = ask(cluster, answer.owner, auction)
    return answer


def committed(kafka: FakeKafka, auction: int, offset: int | None = None) -> int | None:
    """Value of a key as of a changelog offset, by the changelog."""
    key, value = changelog_key(0, str(auction).encode()), None
    for record in read_records(kafka, CHANGELOG, None):
        if record.partition == auction % TASKS and record.key == key and (offset is None or record.offset <= offset):
            value = msgspec.json.decode(record.value)
    return value


def test_any_replica_answers_for_any_key_or_names_the_owner_who_does() -> None:
    cluster = grown("a", "b", "c", keys=[*range(KEYS), *range(0, KEYS, 3)])
    expected = Counter(row["auction"] for row in cluster.sent)
    for holder in cluster.services:
        for auction in range(KEYS + 8):
            answer = redirected(cluster, holder, auction)
            assert answer.refusal is None, answer
            assert answer.value == expected.get(auction)


def test_after_tasks_moved_and_came_back_every_key_is_found_again() -> None:
    cluster = grown("a", "b")
    cluster.add("c")
    work(cluster, running(cluster, "a", "b", "c"))
    cluster.drain("c")
    work(cluster, lambda: cluster.nodes["c"].left)
    settled(cluster)
    cluster.rest()
    expected = Counter(row["auction"] for row in cluster.sent)
    for holder in ("a", "b"):
        found = {auction: redirected(cluster, holder, auction) for auction in expected}
        assert {auction: answer.value for auction, answer in found.items()} == expected
        assert {answer.refusal for answer in found.values()} == {None}


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [Strategy.HYBRID, Strategy.PRECOPY, Strategy.REPLAY])
def test_answers_during_two_four_two_are_as_new_as_they_say_and_refusals_end(strategy: Strategy) -> None:
    cluster = grown("a", "b", strategy=strategy)
    refusals: Counter[str] = Counter()

    def ask_around() -> None:
        number = len(cluster.sent)
        for holder in list(cluster.services):
            auction = number * 7 % KEYS
            answer = ask(cluster, holder, auction)
            if answer.refusal is not None:
                refusals[answer.refusal] += 1
            if answer.offset >= 0:
                assert answer.value == committed(cluster.kafka, auction, answer.offset), answer
            if answer.refusal is None:
                assert answer.value == committed(cluster.kafka, auction), answer

    def asking(look):
        return lambda: (ask_around(), look())[1]

    for name in ("c", "d"):
        cluster.add(name)
    work(cluster, asking(running(cluster, "a", "b", "c", "d")))
    for name in ("c", "d"):
        cluster.drain(name)
    work(cluster, asking(running(cluster, "a", "b")))
    assert set(refusals) <= {"no copy here", "still elsewhere", "unconfirmed", "unavailable"}
    began_s = cluster.clock.monotonic_s()
    while any(redirected(cluster, "a", auction).refusal for auction in range(KEYS)):
        cluster.write(rows_of([1]))
        cluster.step()
        assert cluster.clock.monotonic_s() - began_s < 5.0
    cluster.assert_exact()


def test_a_former_owner_s_answer_is_never_confirmed() -> None:
    cluster = grown("a", "b")
    auction = next(iter(cluster.nodes["a"].owned()))
    cluster.nodes["a"].asleep = True
    cluster.until("b runs it", lambda: auction in cluster.nodes["b"].owned())
    cluster.write(rows_of([auction]))
    cluster.until("b has counted it", lambda: committed(cluster.kafka, auction) == 2)
    stale = ask(cluster, "a", auction)
    assert (stale.refusal, stale.owner) in {("unconfirmed", "b"), ("no copy here", "b")}
    assert redirected(cluster, "a", auction).value == 2
