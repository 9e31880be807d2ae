"""Reads the changelog partitions of several tasks with one consumer, each to its captured end.

What is done where the log no longer has what a reader wants is the caller's: a full restore starts over, the tail of
a base can't (R10).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import groupby

from statemgr.changelog import bases
from statemgr.changelog.begin import Reading, Surroundings, ask_bounds, is_long, warn_of_lost_start
from statemgr.changelog.model import RestoreProgress, Source
from statemgr.changelog.patience import Patience, Verdict
from statemgr.changelog.tail import Tail
from statemgr.decisions import base_age_limit_ms, delete_retention_ms
from statemgr.errors import InputLostError, RestoreStalledError
from statemgr.kafka.ports import Bounds, Consumer, Kafka, Message

log = logging.getLogger(__name__)

Overtaken = Callable[[Tail, Bounds, InputLostError], None]
"""Reacts to a log that no longer has what a tail wants next."""


class Reader:
    """The consumer, which can be replaced by a new one: that has no position, fetch or error left from before."""

    def __init__(self, kafka: Kafka, name: str) -> None:
        self._kafka = kafka
        self._name = name
        self.consumer: Consumer = kafka.consumer(read_committed=True, name=name)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.consumer.close()

    def read_from(self, tails: Sequence[Tail], *, anew: bool = False) -> None:
        """Read every partition from the offset that its task wants next."""
        if anew:
            self.consumer.close()
            self.consumer = self._kafka.consumer(read_committed=True, name=self._name)
        self.consumer.assign({tail.partition: tail.next for tail in tails})


class Follower:
    """One run over some tails.

    Args:
        around: limits, clock, stop.
        reader: the consumer.
        overtaken: what to do with a tail that the log start overtook.
        finished: told of every tail that has its end.
        on_progress: told after every batch.
    """

    def __init__(
        self,
        around: Reading,
        reader: Reader,
        overtaken: Overtaken,
        finished: Callable[[Tail], object],
        on_progress: Callable[[RestoreProgress], None],
    ) -> None:
        self._around = around
        self._reader = reader
        self._overtaken = overtaken
        self._finished = finished
        self._on_progress = on_progress
        self._pending: dict[int, Tail] = {}

    def run(self, tails: Sequence[Tail]) -> None:
        """Read until every tail has its end.

        Raises:
            RestoreStalledError: no progress before the deadline, or longer than tombstones are certain to stay.
            StopRequestedError: asked to stop.
            CodecError: a changelog record can't be understood.
            StoreWriteError: a store can't be written.
        """
        around = self._around
        self._pending = {tail.task.partition: tail for tail in tails}
        limit_s = base_age_limit_ms(delete_retention_ms(around.topic.config)) / 1000
        self._patience = Patience(self._now(), around.settings.stall_timeout_s, limit_s)
        self._finish_complete()
        self._read_pending()
        while self._pending:
            around.check_stop()
            if self._read_batch():
                self._patience.moved(self._now())
            self._finish_complete()
            self._on_progress(_progress(tails))
            self._be_patient()

    def _read_pending(self, *, anew: bool = False) -> None:
        self._reader.read_from(list(self._pending.values()), anew=anew)

    def _read_batch(self) -> bool:
        """Apply one batch, and follow positions past what is no record; whether anything moved."""
        settings, pending = self._around.settings, self._pending
        try:
            messages = self._reader.consumer.consume(settings.batch_records, settings.poll_s)
        except InputLostError as error:
            return self._truncated(error)
        for partition, run in groupby(messages, _partition):
            tail = pending.get(partition)
            if tail is not None:
                tail.add(list(run))
        moved = bool(messages)
        for tail in pending.values():
            moved |= tail.pass_markers(self._reader.consumer.position(tail.partition))
        return moved

    def _finish_complete(self) -> None:
        complete = [tail for tail in self._pending.values() if not tail.remaining]
        self._reader.consumer.remove([tail.partition for tail in complete])
        for tail in complete:
            del self._pending[tail.task.partition]
            self._finished(tail)

    def _truncated(self, cause: InputLostError) -> bool:
        """The log no longer has what a reader wants next."""
        moved = False
        for tail in self._pending.values():
            bounds = ask_bounds(self._around, self._reader.consumer, tail.partition)
            if bounds is not None and not bounds.start <= tail.next <= bounds.end:
                self._overtaken(tail, bounds, cause)
                moved = True
        self._read_pending(anew=True)
        return moved

    def _be_patient(self) -> None:
        if not self._pending:
            return
        now = self._now()
        match self._patience.verdict(now):
            case Verdict.READ_ANEW:
                log.warning("no progress for %.0f s, reading anew: %s", self._patience.still_for(now), self._lagging())
                self._read_pending(anew=True)
            case Verdict.STALLED:
                raise RestoreStalledError(
                    f"restore made no progress for {self._patience.still_for(now):.0f} s: {self._lagging()}; check the "
                    "leader of the partition, and for a transaction that another producer left open "
                    "(kafka-transactions.sh find-hanging)"
                )
            case Verdict.TOO_SLOW:
                raise RestoreStalledError(
                    f"restore took longer than {self._patience.limit_s:.0f} s, half of the changelog's "
                    f"delete.retention.ms: {self._lagging()}; deletes may have left the log unseen, so raise "
                    f"delete.retention.ms of {self._around.topic.name}"
                )
            case Verdict.GO_ON:
                pass

    def _lagging(self) -> str:
        return ", ".join(f"{tail.partition} at offset {tail.next} of {tail.end}" for tail in self._pending.values())

    def _now(self) -> float:
        return self._around.clock.monotonic_s()


def _partition(message: Message) -> int:
    return message.partition()


def _end_of_log(bounds: Bounds) -> int:
    return bounds.end


def start_over(around: Surroundings, end: Callable[[Bounds], int] = _end_of_log) -> Overtaken:
    """The reaction of who reads from the log's start: begin again, a limited number of times.

    Args:
        around: limits, and where the stores are.
        end: gives the offset to read to.
    """

    def overtaken(tail: Tail, bounds: Bounds, cause: InputLostError) -> None:
        allowed = around.settings.max_restarts
        if tail.restarts >= allowed:
            raise RestoreStalledError(
                f"restore of {tail.partition} started over {allowed} times, because its log start overtook the reader "
                f"(now {bounds.start}, wanted {tail.next}); nothing may be deleted from a changelog: set "
                "cleanup.policy=compact"
            ) from cause
        tail.restarts += 1
        log.warning(
            "%s now holds %d … %d, %s wanted %d: starting over (%d of %d)",
            *(tail.partition, bounds.start, bounds.end, tail.task, tail.next, tail.restarts, allowed),
            extra={"task": str(tail.task), "epoch": tail.epoch},
        )
        filling = is_long(bounds.start, end(bounds))
        store = bases.start_over(around.backend, tail.task, tail.epoch, tail.store, filling=filling)
        around.opened.callback(store.close)
        tail.begin(store, Source.FULL, bounds.start, end(bounds), None, filling=filling)
        warn_of_lost_start(tail.partition, bounds)

    return overtaken


def _progress(tails: Sequence[Tail]) -> RestoreProgress:
    return RestoreProgress(
        sum(tail.records for tail in tails),
        sum(tail.bytes for tail in tails),
        sum(tail.remaining for tail in tails),
        {tail.task: RestoreProgress(tail.records, tail.bytes, tail.remaining) for tail in tails},
    )


def ignore(progress: RestoreProgress) -> None:
    """Is told of progress, and says nothing."""


def never() -> bool:
    """Is asked whether to stop, and does not."""
    return False
