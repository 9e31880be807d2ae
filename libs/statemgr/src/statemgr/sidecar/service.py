"""What a state manager answers, apart from how requests reach it.

It reads the stores of one replica beside the replica, follows the control log, and answers for its own copies alone;
it never forwards. Over a network it is served by :mod:`statemgr.sidecar.server`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from statemgr.clock import Clock
from statemgr.control.view import ControlView
from statemgr.errors import HolderUnavailableError, NoSuchCopyError, StoreLockedError
from statemgr.layout import changelog_key, store_key
from statemgr.migration.ports import Address, Chunk, Description, LookedUp
from statemgr.sidecar import answers, authority, reads
from statemgr.sidecar.copies import OpenCopies
from statemgr.sidecar.key_filter import FilterBuilder, KeyFilter
from statemgr.sidecar.readers import ReaderBackend, StoreReader
from statemgr.sidecar.reads import Read
from statemgr.sidecar.superseded import Copy, needed, superseded
from statemgr.store.base import UNFINISHED_KEY, StoreMeta
from statemgr.types import TaskId

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True)
class ServiceSettings:
    """Limits of a state manager.

    Attributes:
        lease_s: a live read is confirmed if the control log was read to its end at most this long ago (R15).
        idle_s: a copy that nobody asks for is closed after this long; opening it again takes some tens of ms.
        poll_s: between two looks whether the owner has written what is asked for; one look takes 1 to 10 ms.
        destroy_s: how long a superseded copy may be kept busy by requests before it is left for the next time.
        look_up_bytes: most bytes in one look-up's answer.
        chunk_bytes: most bytes in one chunk.
        filter_step: keys taken into a filter before others may use the copy.
    """

    lease_s: float = 2.0
    idle_s: float = 60.0
    poll_s: float = 0.005
    destroy_s: float = 0.1
    look_up_bytes: int = answers.LOOK_UP_BYTES
    chunk_bytes: int = answers.CHUNK_BYTES
    filter_step: int = 10_000


class StateService:
    """The state manager of one replica; may be used by many threads.

    Args:
        readers: the replica's stores.
        view: gives the control log as read so far.
        clock: time.
        name: the replica's name.
        caught_up_s: gives the monotonic time up to which the control log is known to be read; None: not yet.
        pause: waits so many seconds for the owner to write on; None: nothing is waited for.
        settings: limits.
    """

    def __init__(
        self,
        readers: ReaderBackend,
        view: Callable[[], ControlView],
        clock: Clock,
        name: str,
        *,
        caught_up_s: Callable[[], float | None] = lambda: None,
        pause: Callable[[float], object] | None = None,
        settings: ServiceSettings | None = None,
    ) -> None:
        self.name = name
        self._readers = readers
        self._view = view
        self._clock = clock
        self._caught_up_s = caught_up_s
        self._pause = pause
        self._settings = settings or ServiceSettings()
        self._copies = OpenCopies(readers, clock)

    def describe(self, address: Address, at_least: int, timeout_s: float) -> Description:
        """See :meth:`statemgr.migration.ports.StateClient.describe`; errors as of its answer."""
        return self._ask(address, at_least, timeout_s, answers.describe, fresh=True)

    def look_up(self, address: Address, at_least: int, keys: Sequence[bytes], timeout_s: float) -> LookedUp:
        """See :meth:`statemgr.migration.ports.StateClient.look_up`; errors as of its answer."""
        epoch, limit = address.layer.epoch, self._settings.look_up_bytes
        return self._ask(address, at_least, timeout_s, lambda reader: answers.look_up(reader, epoch, keys, limit))

    def hot(self, address: Address, at_least: int, cursor: bytes, timeout_s: float) -> Chunk:
        """See :meth:`statemgr.migration.ports.StateClient.hot`; errors as of its answer."""
        epoch, limit = address.layer.epoch, self._settings.chunk_bytes
        return self._ask(address, at_least, timeout_s, lambda reader: answers.hot(reader, epoch, cursor, limit))

    def bins(self, address: Address, at_least: int, first: int, last: int, cursor: bytes, timeout_s: float) -> Chunk:
        """See :meth:`statemgr.migration.ports.StateClient.bins`; errors as of its answer."""
        epoch, limit = address.layer.epoch, self._settings.chunk_bytes
        return self._ask(
            address, at_least, timeout_s, lambda reader: answers.bins(reader, epoch, first, last, cursor, limit)
        )

    def filter(self, address: Address, at_least: int, timeout_s: float) -> KeyFilter:
        """A filter of the keys that the copy has values of; others may use the copy in between.

        Raises:
            HolderUnavailableError: the copy is too large to be gone through before the deadline.
        """
        end_s = self._clock.monotonic_s() + timeout_s
        builder = FilterBuilder()
        offset, keys, cursor = self._keys(address, at_least, timeout_s, b"")
        while cursor is not None:
            builder.add(keys)
            left_s = end_s - self._clock.monotonic_s()
            if left_s <= 0:
                raise HolderUnavailableError(f"the keys of {address.task} were not gone through within {timeout_s:g} s")
            _, keys, cursor = self._keys(address, at_least, left_s, cursor)
        builder.add(keys)
        return builder.build(address.layer.epoch, offset)

    def get(self, task: TaskId, table: int, keys: Sequence[bytes], timeout_s: float) -> Read:
        """Committed values of a table's keys, from the newest copy here (R15).

        Raises:
            NoSuchCopyError: there is no copy of the task here, or one that is not whole yet; names the owner.
            HolderUnavailableError: no answer before the deadline.
        """
        epoch = self._newest(task)
        wanted = [store_key(changelog_key(table, key)) for key in keys]
        limit = self._settings.look_up_bytes

        def work(reader: StoreReader) -> tuple[LookedUp | None, StoreMeta | None]:
            meta, (mark,) = reader.meta(), reader.get_many([UNFINISHED_KEY])
            whole = reads.is_whole(meta, unfinished=mark is not None)
            return answers.look_up(reader, epoch, wanted, limit) if whole else None, meta

        found, meta = self._read(task, epoch, -1, timeout_s, work, fresh=True)
        view = self._view()
        if found is None:
            raise NoSuchCopyError(
                f"copy {task}@{epoch} of {self.name} is not whole yet; "
                f"its owner is {reads.owner(view, task) or 'unknown'}"
            )
        claimed = reads.is_claimed(view, task, epoch, meta, self.name)
        confirmed = self._within_lease() and claimed and reads.owns(view, task, epoch, self.name)
        return Read(epoch, found.offset, found.found, confirmed, reads.owner(view, task))

    def check(self, address: Address) -> None:
        """Refuse whom the control log does not back, see :func:`statemgr.sidecar.authority.check`."""
        authority.check(self._view().tasks.get(address.task), address, self.name)

    def copies(self) -> list[Copy]:
        """Every store that is here."""
        return self._readers.copies()

    def needed(self, *, own: bool = True, asked_since_s: float = float("-inf")) -> list[Copy]:
        """Copies for whose sake this state manager should stay.

        Args:
            own: count those of tasks of its replica, too.
            asked_since_s: monotonic time; leave out what nobody has asked for since.
        """
        wanted = needed(self.copies(), self._view(), self.name, own=own)
        return [copy for copy in wanted if self._copies.asked_s(*copy) >= asked_since_s]

    def tidy(self) -> list[Copy]:
        """Close copies that nobody asks for, and delete those that are superseded.

        Returns:
            What was deleted; one that the replica still has open is left for the next time.
        """
        self._copies.close_unused(self._settings.idle_s)
        return [copy for copy in superseded(self.copies(), self._view(), self.name) if self._destroyed(*copy)]

    def close(self) -> None:
        """Close all copies."""
        self._copies.close(timeout_s=1.0)
        self._readers.close()

    def _destroyed(self, task: TaskId, epoch: int) -> bool:
        try:
            self._copies.destroy(task, epoch, self._settings.destroy_s)
        except (StoreLockedError, HolderUnavailableError):
            return False
        except OSError as error:
            about = {"task": str(task), "epoch": epoch}
            log.warning("superseded copy %s@%s can't be deleted: %s", task, epoch, error, extra=about)
            return False
        return True

    def _newest(self, task: TaskId) -> int:
        epoch = reads.newest(self._view(), task, self._readers.existing(task))
        if epoch is None:
            raise NoSuchCopyError(
                f"{self.name} has no copy of {task}; its owner is {reads.owner(self._view(), task) or 'unknown'}"
            )
        return epoch

    def _within_lease(self) -> bool:
        seen_s = self._caught_up_s()
        return seen_s is not None and self._clock.monotonic_s() - seen_s <= self._settings.lease_s

    def _keys(
        self, address: Address, at_least: int, timeout_s: float, cursor: bytes
    ) -> tuple[int, list[bytes], bytes | None]:
        step = self._settings.filter_step
        return self._ask(address, at_least, timeout_s, lambda reader: answers.keys(reader, cursor, step))

    def _ask(
        self,
        address: Address,
        at_least: int,
        timeout_s: float,
        work: Callable[[StoreReader], T],
        fresh: bool = False,
    ) -> T:
        self.check(address)
        answer = self._read(address.task, address.layer.epoch, at_least, timeout_s, work, fresh)
        self.check(address)  # the log may have gone on meanwhile
        return answer

    def _read(
        self, task: TaskId, epoch: int, at_least: int, timeout_s: float, work: Callable[[StoreReader], T], fresh: bool
    ) -> T:
        """Do something with a copy once it has come to ``at_least``; ``fresh``: take in what is new in any case."""
        deadline_s = self._clock.monotonic_s() + timeout_s
        while True:
            offset, answer = self._copies.use(
                task, epoch, deadline_s, lambda reader: _once_there(reader, at_least, fresh, work)
            )
            if answer is not None:
                return answer
            if self._pause is None or self._clock.monotonic_s() >= deadline_s:
                raise HolderUnavailableError(
                    f"copy {task}@{epoch} of {self.name} has come to offset {offset}, not yet to {at_least}"
                )
            self._pause(self._settings.poll_s)


def _once_there(
    reader: StoreReader, at_least: int, fresh: bool, work: Callable[[StoreReader], T]
) -> tuple[int, T | None]:
    offset = answers.offset_of(reader)
    if fresh or offset < at_least:
        reader.catch_up()
        offset = answers.offset_of(reader)
    return offset, work(reader) if offset >= at_least else None
