"""Which copy of a changelog partition's state is a valid base for its new owner: pure decisions (R12).

A copy holds exactly what the changelog said up to its offset X, whoever owned the partition then. So what a newcomer
needs is not that its copy is the last owner's, but that what lies behind X is still in the log and is read before the
first event, which Faust's own recovery does: *state = base @ X + changelog (X, end]*.

::

    facts                                                    the copy
    bounds of the log unknown                                not used
    nothing in it                                            not used
    X behind the log's end                                   not used: the log was made anew, or lost its end
    records between X and the log's start are gone           not used
    the log's record at X is not the one that it saw there   not used: another log
    records behind X, last change too old                    not used: deletes may have left the log unseen
    else                                                     a base

Faust's clients can't tell the id of a topic. In its place the copy keeps a *witness* of the record at X: its time and
checksums of key and value. Where compaction has removed that record nothing is proven, and the copy is not used.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from statemgr.control.records import Layer
from statemgr.decisions import CLOCK_TOLERANCE_MS, MIN_DELETE_RETENTION_MS, base_age_limit_ms
from statemgr.faust.limits import OWN_TAIL_RECORDS
from statemgr.store.base import StoreMeta

BATCH_SPAN_MS = 10_000
"""Longest time between two records of a batch whose witnesses still agree; usually it is some ms."""


@dataclass(frozen=True)
class Log:
    """What is known of a changelog partition, after every former owner has let go of it.

    Attributes:
        start: first offset that it still has.
        end: the next that will be written.
        delete_retention_ms: how long deletes stay readable; None: not known.
    """

    start: int
    end: int
    delete_retention_ms: int | None = None


@dataclass(frozen=True)
class Candidate:
    """A copy that might be the base.

    Attributes:
        layer: whose, and of which epoch.
        own: whether it lies on this worker's disk.
        meta: up to where it is complete; None: nothing was written to it.
        complete: whether it needs no other copy.
    """

    layer: Layer
    own: bool
    meta: StoreMeta | None
    complete: bool

    @property
    def offset(self) -> int:
        """Its X; -1: nothing is in it."""
        return -1 if self.meta is None else self.meta.offset


def witness(timestamp_ms: int, key: bytes | None, value: bytes | None) -> str:
    """What tells a changelog's record from the one at the same offset of another log."""
    return f"{timestamp_ms}:{_checksum(key)}:{_checksum(value)}"


def proves(kept: str, found: str | None) -> bool:
    """Whether the changelog's record at X, as a witness, is the one that a copy keeps the witness of.

    A producer is told the time of the first record of the batch that its record was in, so that the changelog's own
    may be somewhat later.
    """
    if found is None:
        return False
    kept_ms, _, kept_rest = kept.partition(":")
    found_ms, _, found_rest = found.partition(":")
    if kept_rest != found_rest or not kept_ms.isdigit() or not found_ms.isdigit():
        return False
    return 0 <= int(found_ms) - int(kept_ms) <= BATCH_SPAN_MS


def flaw(candidate: Candidate, log: Log | None, now_ms: int) -> str | None:
    """Why a copy is no base, apart from its witness; None if it is one."""
    meta = candidate.meta
    if log is None or not 0 <= log.start <= log.end:
        return "the bounds of the changelog are unknown"
    if meta is None or meta.offset < 0:
        return "nothing is in it"
    if meta.offset >= log.end:
        return f"it is ahead of the log, at {meta.offset}, which ends at {log.end}"
    if meta.offset + 1 < log.start:
        return f"the log starts at {log.start}, it is complete only up to {meta.offset}"
    return None if meta.offset + 1 == log.end else _outdated(meta, log, now_ms)


def ranked(candidates: Iterable[Candidate], log: Log | None, now_ms: int) -> list[Candidate]:
    """The copies that may be a base, best first: an own, complete one with a short tail, else the shortest tail."""

    def rank(candidate: Candidate) -> tuple[bool, int, bool]:
        at_hand = candidate.own and candidate.complete
        near = log is not None and log.end - 1 - candidate.offset <= OWN_TAIL_RECORDS
        return not (at_hand and near), -candidate.offset, not candidate.own

    return sorted((each for each in candidates if flaw(each, log, now_ms) is None), key=rank)


def _outdated(meta: StoreMeta, log: Log, now_ms: int) -> str | None:
    age_ms = now_ms - meta.committed_at_ms
    if age_ms < -CLOCK_TOLERANCE_MS:
        return f"its last change lies {-age_ms} ms in the future, so its age is unknown"
    retention_ms = MIN_DELETE_RETENTION_MS if log.delete_retention_ms is None else log.delete_retention_ms
    limit_ms = base_age_limit_ms(retention_ms)
    if age_ms >= limit_ms:
        return f"its last change is {age_ms} ms old, deletes are certain to be in the log for {limit_ms} ms only"
    return None


def _checksum(data: bytes | None) -> str:
    return "-" if data is None else f"{zlib.crc32(data):08x}{len(data):x}"
