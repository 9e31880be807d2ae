"""When to commit, and how much to take at once: pure decisions.

Under light load every batch is a transaction of its own, so a record is visible as soon as it can be. Under backlog
many batches share one, so the fixed cost of a commit (a round trip per participating partition leader, one for the
coordinator's markers) is spread over them.
"""

from __future__ import annotations

from dataclasses import dataclass

BATCH_TARGET_S = 1.0
"""Longest time that a batch is meant to take: a tenth of the transaction's time-out, and of what is left after SIGTERM.

Built-in operators never come near it; user code that takes milliseconds a record does.
"""

ALERT_BATCH_S = 0.01
"""Longest time that a batch is meant to take while a move is near: half of the 20 ms that a release may take (R16)."""

UNCOMMITTED_INTERVAL_S = 0.005
"""Shortest time between two batches whose outputs are seen without a commit: at most 200 produce requests a second."""

REST_SHARE = 0.5
"""Rest after a batch, as a share of what it took: a third of the time is left to others."""

LONGEST_REST_S = 0.1
"""Longest rest after a batch: it is paid in latency."""

WAITED_SHARE = 0.1
"""How much later a record may become visible for the sake of longer transactions, as a share of what it has waited."""

LONGEST_TRANSACTION_S = 1.0
"""Longest transaction for old records; a commit of about 10 ms is 1 % of it, and longer ones gain nothing more."""

GATHERED_S = 2.0
"""Age of records from which on their rows may wait for the end of a transaction, a tenth of that at most.

Below, a transaction under backlog is as short as with fresh records, so that there is little to merge.
"""

OLD_S = 10.0
"""Records that have lain there for so long are a catch-up: what their next batches take more in latency is nothing."""

OLD_BATCH_BYTES = 8 * 1024 * 1024
"""Of the values in a batch of old records. Larger ones fall out of the processor's caches: of full NEXMark bids (330
bytes) a batch of 6.6 MB took 1.42 µs an event to read and decode, one of 33 MB 2.04."""

OLD_BATCH_TIMES = 4
"""At most so many times the largest batch of fresh records."""

KEEP = 0.9
"""Weight of the batches before at each new one: about ten count."""

ALIKE = 0.05
"""Sizes that differ by less than this share of their mean say nothing about the cost of a record."""

FIRST_BATCH_PART = 64
"""The first batch is this part of the largest: 312 JSON records, which take 10 s at 32 ms each.

Sizes double as long as batches are quick, so after seven batches nothing is left of it.
"""


@dataclass(frozen=True)
class CommitLimits:
    """Bounds of one transaction.

    Attributes:
        interval_s: longest time a transaction with fresh records stays open under backlog. 0.1 s against a commit of
            ~10 ms: 10 % of the time at most goes into committing.
        dirty_entries: uncommitted state entries that force a commit. 200 k entries of ~100 bytes are ~20 MB of
            changelog in one transaction and ~60 MB of Python objects.
        output_bytes: uncommitted output bytes that force a commit; half of the producer's queue.
    """

    interval_s: float = 0.1
    dirty_entries: int = 200_000
    output_bytes: int = 32 * 1024 * 1024


@dataclass(frozen=True)
class TransactionFacts:
    """What is known after a poll.

    Attributes:
        open: a transaction has begun.
        open_s: seconds since it began.
        dirty_entries: uncommitted state entries of all tasks.
        output_bytes: bytes produced in the transaction.
        backlog: the poll brought so much that more is certainly waiting.
        waited_s: age of the youngest records of the last batch.
        outputs_wait: readers see some of the outputs only after the commit.
        stopping: the replica was asked to stop.
        fruitless: there is nothing in it for a reader or a store: all rows that were read wait for their state.
    """

    open: bool
    open_s: float
    dirty_entries: int
    output_bytes: int
    backlog: bool
    waited_s: float
    outputs_wait: bool
    stopping: bool
    fruitless: bool = False


def should_commit(facts: TransactionFacts, limits: CommitLimits) -> bool:
    """Whether the open transaction ends now; a fruitless one may wait, or what comes next would wait for its commit."""
    if not facts.open:
        return False
    if facts.stopping or (facts.outputs_wait and not facts.backlog and not facts.fruitless):
        return True
    longest_s = transaction_s(limits.interval_s, facts.waited_s) if facts.backlog else limits.interval_s
    return (
        facts.open_s >= longest_s
        or facts.dirty_entries >= limits.dirty_entries
        or facts.output_bytes >= limits.output_bytes
    )


def transaction_s(interval_s: float, waited_s: float) -> float:
    """Longest time for a transaction under backlog: what has lain there for long may take a little longer."""
    return max(interval_s, min(WAITED_SHARE * waited_s, LONGEST_TRANSACTION_S))


def gathers(*, backlog: bool, waited_s: float) -> bool:
    """Whether rows may wait for the end of the transaction, to be merged with those of later batches.

    Only in a catch-up: who reads outputs without waiting for the commit feels it, and so does who waits for a commit.
    """
    return backlog and waited_s >= GATHERED_S


def batch_interval_s(interval_s: float, *, outputs_wait: bool) -> float:
    """Shortest time between two batches under light load: where each is a transaction, it spares the broker."""
    return interval_s if outputs_wait else min(interval_s, UNCOMMITTED_INTERVAL_S)


def breath_s(since_batch_s: float, since_end_s: float, interval_s: float, busy_s: float, more: bool) -> float:
    """How long to let records gather before the next poll; 0 if more wait already, and for the first after a silence.

    A broker that is short of processors answers commits late; asking it less often lets it, and everybody else on its
    machine, come to rest at a longer interval instead of falling behind.

    Args:
        since_batch_s: seconds since the last batch was taken.
        since_end_s: seconds since it was committed.
        interval_s: shortest time between two batches under light load.
        busy_s: seconds from taking a batch to the end of its commit, of late.
        more: the last batch was as large as it might be, so that more is waiting.
    """
    rest_s = min(busy_s * REST_SHARE, LONGEST_REST_S)
    return 0.0 if more else max(0.0, interval_s - since_batch_s, rest_s - since_end_s)


def smoothed_s(before_s: float, now_s: float) -> float:
    """A duration of late: the new one counts for a quarter."""
    return now_s if before_s == 0.0 else before_s + (now_s - before_s) / 4


def most_batch_records(most: int, record_bytes: float, waited_s: float) -> int:
    """Most records of a batch.

    Of old records more go into one, so that more of them share a key: each key has one output and one entry of state
    in a batch.

    Args:
        most: of fresh records.
        record_bytes: mean size of a value.
        waited_s: age of the youngest records of the last batch.
    """
    if waited_s < OLD_S:
        return most
    return max(most, min(OLD_BATCH_TIMES * most, int(OLD_BATCH_BYTES / max(record_bytes, 1.0))))


def first_batch_records(most: int) -> int:
    """Records of the first batch, before anything is known of the operators' pace."""
    return max(1, most // FIRST_BATCH_PART)


@dataclass(frozen=True)
class Pace:
    """What batches cost of late: sums for a line through (records, seconds), older ones fading.

    Most of a batch's time may be the same for any size (a look-up, a call into the engine); only the slope of the line
    says what more records would cost.
    """

    weight: float = 0.0
    records: float = 0.0
    seconds: float = 0.0
    squares: float = 0.0
    products: float = 0.0

    def after(self, taken: int, took_s: float) -> Pace:
        """The pace after one more batch."""
        return Pace(
            self.weight * KEEP + 1,
            self.records * KEEP + taken,
            self.seconds * KEEP + took_s,
            self.squares * KEEP + taken * taken,
            self.products * KEEP + taken * took_s,
        )

    @property
    def record_s(self) -> float | None:
        """Seconds that a record more costs; None as long as batches were all of about one size."""
        if self.weight == 0:
            return None
        mean = self.records / self.weight
        variance = self.squares / self.weight - mean * mean
        if variance <= (ALIKE * mean) ** 2:
            return None
        slope = (self.products / self.weight - mean * self.seconds / self.weight) / variance
        return min(max(slope, 0.0), self.seconds / self.records)


def alert_batch_records(records: int, least: int, pace: Pace) -> int:
    """Most records of a batch while a release may be asked for at any moment.

    Args:
        records: the same at other times.
        least: what the fixed cost of a batch asks for; twice as many are tried where nothing is known.
        pace: of the batches before.
    """
    record_s = pace.record_s
    if record_s is None:
        return min(records, least if pace.weight == 0 else 2 * least)
    if record_s * records <= ALERT_BATCH_S:
        return records
    return min(records, max(least, int(ALERT_BATCH_S / record_s)))


def next_batch_records(records: int, most: int, taken: int, took_s: float) -> int:
    """Most records of the next batch.

    Args:
        records: the same of the batch before.
        most: what it is never to exceed.
        taken: records that the batch before had.
        took_s: seconds that it was processed.
    """
    if took_s > BATCH_TARGET_S:
        return max(1, int(taken * BATCH_TARGET_S / took_s))
    if took_s <= BATCH_TARGET_S / 2 and taken * 2 >= records:
        records *= 2
    return min(most, records)
