"""What must hold after every committed transaction, seen from the log; and of every store, at any time.

After every commit: one writer per task and epoch (I1), each key's outputs in the order of the input and none twice (I2,
I3), changelog entries in order of their commits (I4), progress that never goes back (R1), assignments, releases and
fences in the order of R3, terms (R19). Of stores: no entry that is older or newer than the store says (I4).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from statemgr.control.records import Assigned, Done, Fenced, Leader, Released, decode_control
from statemgr.layout import PROGRESS_KEY, changelog_topic, control_topic, store_key
from statemgr.progress import Progress, decode_progress
from statemgr.testing.cluster import Cluster, Identity
from statemgr.testing.partition_log import Entry, Outcome, Transaction
from statemgr.types import TaskId, TopicPartition
from tests.simulation.world import SimulationError, World

if TYPE_CHECKING:
    from tests.simulation.case import Case

SECOND = ".second"
"""Ending of a transactional id where a replica has two in turn."""


@dataclass
class TaskHistory:
    """What was committed for a task, in the order of commits.

    Attributes:
        owners: epoch → owner by the control log.
        ended: newest epoch that was released.
        released: epoch → its release.
        progress: last progress record committed.
        versions: store key → (changelog offset, value) in offset order, never compacted.
        end: changelog offset of the last progress record committed.
        done: newest epoch said to be complete.
        done_s: when that was said.
        owned_s: epoch → when it was assigned.
        began_at: epoch → where the task stood before its first commit.
        confirmed: epoch → newest X that a read was confirmed for.
    """

    owners: dict[int, str] = field(default_factory=dict)
    ended: int = 0
    progress: Progress | None = None
    versions: dict[bytes, list[tuple[int, bytes | None]]] = field(default_factory=dict)
    end: int = -1
    done: int = 0
    done_s: float = 0.0
    owned_s: dict[int, float] = field(default_factory=dict)
    began_at: dict[int, int] = field(default_factory=dict)
    confirmed: dict[int, int] = field(default_factory=dict)

    def value_at(self, key: bytes, offset: int) -> bytes | None:
        """Value of a store key as of a changelog offset; None: absent."""
        versions = self.versions.get(key, [])
        index = bisect_right(versions, offset, key=lambda version: version[0])
        return versions[index - 1][1] if index else None

    def values_from(self, key: bytes, offset: int) -> list[bytes | None]:
        """Values of a store key from a changelog offset on, the one at that offset first."""
        later = [value for at, value in self.versions.get(key, ()) if at > offset]
        return [self.value_at(key, offset), *later]

    def values_around(self, key: bytes, offset: int) -> list[bytes | None]:
        """The same; if it changes later, all values it ever had, since the one at the offset may be compacted away."""
        versions = self.versions.get(key, [])
        if versions and versions[-1][0] > offset:
            return [None, *(value for _, value in versions)]
        return [self.value_at(key, offset)]

    def state_at(self, offset: int) -> dict[bytes, bytes]:
        """All entries as of a changelog offset."""
        pairs = ((key, self.value_at(key, offset)) for key in self.versions)
        return {key: value for key, value in pairs if value is not None}


class LogWatch:
    """Sees every commit at the moment at which it is decided.

    Args:
        world: where violations are reported.
        cluster: the simulated Kafka.
        app: the application.
        stage: its stage.
        case: what runs.

    Attributes:
        on_change: told of every change of an owner, by number.
        on_commit: told of every commit, by the name of the replica, or the transactional id of who is none.
        only_planned: nothing happens but planned moves, so nobody may lose ownership.
    """

    def __init__(self, world: World, cluster: Cluster, app: str, stage: str, case: Case) -> None:
        self._world = world
        self._cluster = cluster
        self._stage = stage
        self._prefix = f"{app}.{stage}."
        self._control = TopicPartition(control_topic(app), 0)
        self._changelog = changelog_topic(app, stage)
        self._case = case
        self._order = case.order()
        self.tasks: dict[TaskId, TaskHistory] = {}
        self.term = 0
        self.commits = 0
        self.changes = 0
        self.anew = False
        self.on_change: Callable[[int], None] = lambda _: None
        self.on_commit: Callable[[str], None] = lambda _: None
        self.only_planned = False
        decide = cluster._decide

        def watched(identity: Identity, outcome: Outcome) -> None:
            transaction = identity.transaction
            decide(identity, outcome)
            if transaction is not None:
                self._decided(transaction, outcome)

        cluster._decide = watched  # type: ignore[method-assign]

    def of(self, task: TaskId) -> TaskHistory:
        """History of a task."""
        return self.tasks.setdefault(task, TaskHistory())

    def begin_anew(self) -> None:
        """Input and changelog are made anew: what was committed is gone, ownership stays."""
        self.anew = True
        self._order = self._case.order()
        for history in self.tasks.values():
            history.progress, history.versions, history.end = None, {}, -1

    def deleted(self, task: TaskId, epoch: int, holder: str) -> None:
        """A state manager has deleted a copy: nobody may need it any more (R8)."""
        history = self.of(task)
        foreign = history.owners.get(epoch) != holder and history.done >= epoch
        if history.done <= epoch and not foreign:
            self._world.fail(
                SimulationError(f"R8: {holder} deleted {task}@{epoch}, but only epoch {history.done} is complete")
            )

    def _decided(self, transaction: Transaction, outcome: Outcome) -> None:
        if outcome is not Outcome.COMMITTED:
            if transaction.partitions:
                self._world.note("broker", f"aborts a transaction of {transaction.owner}")
                self._check_only_planned(f"a transaction of {transaction.owner} was aborted")
            return
        self.commits += 1
        try:
            for partition in sorted(transaction.partitions):
                if partition.topic == self._changelog:
                    self._changelog_committed(transaction, partition)
                elif partition.topic in self._case.outputs:
                    self._outputs_committed(transaction, partition)
            for entry in self._written(transaction, self._control):
                self._control_committed(transaction, entry)
            self.on_commit(transaction.owner.removeprefix(self._prefix).removesuffix(SECOND))
        except SimulationError as error:
            self._world.fail(error)

    def _written(self, transaction: Transaction, partition: TopicPartition) -> list[Entry]:
        if partition not in transaction.partitions:
            return []
        log = self._cluster.log(partition)
        first = log._open.get(transaction)
        found: list[Entry] = []
        if first is not None:
            for entry in reversed(log._entries):
                if entry.offset < first:
                    break
                if entry.transaction is transaction and not entry.control:
                    found.append(entry)
        return found[::-1]

    def _outputs_committed(self, transaction: Transaction, partition: TopicPartition) -> None:
        """Outputs follow each other as they may."""
        for entry in self._written(transaction, partition):
            complaint = self._order.complaint(partition, entry.value or b"")
            if complaint is not None:
                raise SimulationError(f"{transaction.owner}: {partition} {complaint}")

    def _changelog_committed(self, transaction: Transaction, partition: TopicPartition) -> None:
        task = TaskId(self._stage, partition.partition)
        history = self.of(task)
        entries = self._written(transaction, partition)
        if not entries or entries[-1].key != PROGRESS_KEY:
            raise SimulationError(f"{transaction.owner}: a transaction of {task} does not end with its progress (R1)")
        for entry in entries:
            if entry.key != PROGRESS_KEY:
                self._version(history, store_key(entry.key or b""), entry)
        self._progress(transaction, task, history, decode_progress(entries[-1].value or b""), entries[-1].offset)

    def _version(self, history: TaskHistory, key: bytes, entry: Entry) -> None:
        versions = history.versions.setdefault(key, [])
        if versions and versions[-1][0] > entry.offset:
            raise SimulationError(f"changelog offset {entry.offset} was committed after {versions[-1][0]} (I4)")
        versions.append((entry.offset, entry.value))

    def _progress(
        self, transaction: Transaction, task: TaskId, history: TaskHistory, progress: Progress, offset: int
    ) -> None:
        self._world.note(transaction.owner, f"commits {task}@{progress.epoch} at {offset}: {brief(progress)}")
        owner = transaction.owner.removeprefix(self._prefix).removesuffix(SECOND)
        expected = history.owners.get(progress.epoch)
        if owner != expected:
            raise SimulationError(f"I1: {owner} committed {task} under epoch {progress.epoch}, which is {expected}'s")
        before = history.progress
        if before is not None and before.epoch > progress.epoch:
            raise SimulationError(f"I1: {owner} committed {task}@{progress.epoch} after epoch {before.epoch}")
        if progress.epoch <= history.ended:
            raise SimulationError(f"I1: {owner} committed {task}@{progress.epoch}, but {history.ended} was released")
        for topic, now in progress.inputs.items():
            then = before.inputs.get(topic) if before is not None else None
            if then is not None and (now.low < then.low or now.high < then.high):
                raise SimulationError(f"{owner}: progress of {task} went back from {then} to {now} (R1)")
        history.began_at.setdefault(progress.epoch, max(0, history.end))
        history.progress, history.end = progress, offset

    def _control_committed(self, transaction: Transaction, entry: Entry) -> None:
        record = decode_control(entry.key, entry.value)
        self._world.note(transaction.owner, f"logs at {entry.offset}: {record}")
        match record:
            case Leader(term=term):
                if term <= self.term:
                    raise SimulationError(f"R19: leader of term {term} after {self.term}")
                self.term = term
            case Assigned(epoch=epoch, owner=owner, term=term):
                history = self.of(record.task)
                if epoch != max(history.owners, default=0) + 1:
                    raise SimulationError(f"R3: {record.task} is assigned epoch {epoch} after {history.owners}")
                if term != self.term:
                    raise SimulationError(f"R19: an assignment of term {term} in term {self.term}")
                history.owners[epoch] = owner
                history.owned_s[epoch] = self._world.now_s
                if epoch > 1:
                    self.changes += 1
                    self.on_change(self.changes - 1)
            case Released(epoch=epoch, owner=owner):
                history = self.of(record.task)
                if history.owners.get(epoch) != owner:
                    raise SimulationError(f"I1: {owner} released {record.task}@{epoch}, which was never its own")
                if epoch == max(history.owners):
                    raise SimulationError(f"R3: {owner} released {record.task}@{epoch}, which nobody has taken from it")
                history.ended = max(history.ended, epoch)
            case Done(epoch=epoch, owner=owner):
                history = self.of(record.task)
                if history.owners.get(epoch) != owner:
                    raise SimulationError(f"{owner} said done of {record.task}@{epoch}, which was never its own")
                if epoch > history.done:
                    history.done, history.done_s = epoch, self._world.now_s
            case Fenced(replica=replica):
                self._check_intent(replica)
                self._check_only_planned(f"{replica} was fenced")
            case _:
                pass

    def _check_only_planned(self, what: str) -> None:
        """A planned move fences nobody, so all that its replicas have in hand is committed (R5, I7)."""
        if self.only_planned:
            self._world.fail(SimulationError(f"{what}, though only planned moves have happened (R5, I7)"))

    def _check_intent(self, replica: str) -> None:
        """A fence ends a tenure that was taken from its owner before: the intent is logged first (R3)."""
        for history in self.tasks.values():
            newest = max(history.owners, default=0)
            if any(owner == replica and epoch < newest for epoch, owner in history.owners.items()):
                return
        raise SimulationError(f"R3: {replica} is said to be fenced, but no task was taken from it")


def brief(progress: Progress) -> str:
    """A progress record in few words."""
    inputs = (
        f"[{now.low}, {now.high})" + (f" parked {now.parked}" if now.parked else "") for now in progress.inputs.values()
    )
    return " ".join(inputs)


def store_differences(
    name: str,
    entries: dict[bytes, bytes],
    tombstones: frozenset[bytes],
    allowed: Callable[[bytes], Collection[bytes | None]],
) -> Iterator[str]:
    """Entries of a store that are not what the changelog says (I4).

    Args:
        name: of the store, for the message.
        entries: store key → value, library's own records left out.
        tombstones: store keys with an explicit tombstone.
        allowed: what the changelog allows a store key to be; None: absent.
    """
    told: dict[bytes, bytes | None] = {**entries, **dict.fromkeys(tombstones)}
    for key, value in told.items():
        if value not in allowed(key):
            what = "a tombstone" if value is None else repr(value)
            yield f"{name}: {key!r} is {what}, by the changelog {allowed(key)} (I4)"
