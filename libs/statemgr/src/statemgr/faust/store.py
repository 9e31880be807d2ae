"""The store behind ``store="statemgr://"``: one table of a Faust application.

Faust reads and writes its tables synchronously, within the event loop. A value that is still with a former owner is
fetched then and there, which takes 1 to 5 ms, and at most :data:`statemgr.faust.limits.HOLDER_LIMIT_S` until the copy
is given up and the changelog read instead.

What a table writes goes to the store when its changelog has acknowledged it. So the store learns of the records that
the table sends, and of their acknowledgements, from the table itself.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from faust.exceptions import ImproperlyConfigured
from faust.stores.base import SerializedStore
from faust.streams import current_event
from faust.tables.sets import SetTable
from faust.types.enums import ProcessingGuarantee

from statemgr.errors import StateError
from statemgr.faust.changes import ABSENT, Change
from statemgr.faust.errors import StateUnavailableError
from statemgr.faust.images import Image, Record, Values
from statemgr.faust.partitions import TableState
from statemgr.faust.sets import Sets, SetStates, members_of
from statemgr.faust.tenure import Tenure
from statemgr.faust.worker import Worker, worker_of


class Store(SerializedStore[Any, Any]):
    """See the module; made by Faust for each table, with Faust's own arguments.

    Raises:
        ImproperlyConfigured: the URL has parts that mean nothing, or this version of Faust lacks what is needed.
    """

    def __init__(self, url: Any, app: Any, table: Any, **kwargs: Any) -> None:
        super().__init__(url, app, table, **kwargs)
        _check(self.url, table)
        self._table = table
        self.worker: Worker = worker_of(app)
        claims = app.conf.processing_guarantee != ProcessingGuarantee.EXACTLY_ONCE
        self.held = TableState(
            topic=table.changelog_topic.get_topic_name(),
            image=self._image(),
            elsewhere=claims and not table.is_global,
            claims=claims,
        )
        self._sent: dict[int, tuple[Any, Tenure, Change]] = {}
        self._send_record: Callable[..., Any] = table.send_changelog
        table.send_changelog = self._send
        table._on_changelog_sent = self._told  # noqa: SLF001 - the one place where a record's offset is told
        self.worker.add(self.held)
        if isinstance(table, SetTable):
            table._data = SetStates(table, self)  # noqa: SLF001 - Faust's own makes this store, and can't be told of another

    async def on_start(self) -> None:
        """See :class:`mode.Service`."""
        await self.worker.ensure()

    async def on_rebalance(
        self,
        assigned: Any,  # noqa: ARG002 - Faust's names, here and below
        revoked: Any,  # noqa: ARG002
        newly_assigned: Any,  # noqa: ARG002
        generation_id: int = 0,
    ) -> None:
        """The group has given partitions: have their state, or a way to it, before Faust recovers the rest."""
        await self.worker.prepare(self.held, generation_id)

    def persisted_offset(self, tp: Any) -> int | None:
        """Where Faust's recovery begins; None: at the beginning."""
        tenure = self.held.tenures.get(tp.partition)
        return None if tenure is None else tenure.offset

    def set_persisted_offset(self, tp: Any, offset: int) -> None:
        """Nothing: a store's offset is written in one batch with the changes that it stands for."""

    def apply_changelog_batch(
        self,
        batch: Iterable[Any],
        to_key: Callable[[Any], Any],  # noqa: ARG002
        to_value: Callable[[Any], Any],  # noqa: ARG002
    ) -> None:
        """What Faust's recovery has read of the changelog.

        Raises:
            TypeError: a record without a key.
            StateError: a store can't take it; the worker stops, because Faust would go on without these records.
        """
        records: defaultdict[int, list[Record]] = defaultdict(list)
        for event in batch:
            message = event.message
            if message.key is None:
                raise TypeError(f"Changelog entry is missing key: {message}")
            records[message.partition].append(
                Record(message.key, message.value, message.offset, round(message.timestamp * 1000))
            )
        try:
            for partition, each in records.items():
                tenure = self.held.tenures.get(partition)
                if tenure is not None:  # else it has been revoked since
                    tenure.recovered(each)
        except StateError as error:
            self.worker.give_up(error)
            raise

    def reset_state(self) -> None:
        """Delete what is on this disk of the table; the changelog stays."""
        directory = self.worker.environment.directory
        for slot in directory.parent.glob(f"{directory.name}*"):
            for stores in slot.glob(f"{self.held.topic}*"):
                shutil.rmtree(stores)

    async def backup_partition(
        self,
        tp: Any,
        flush: bool = True,
        purge: bool = False,
        keep: int = 1,
    ) -> None:
        """Not offered: state managers serve copies, and the changelog is the backup.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(f"statemgr:// makes no backups, of {tp} as of others; the changelog has all state")

    def restore_backup(
        self,
        tp: Any,
        latest: bool = True,
        backup_id: int = 0,
    ) -> None:
        """See :meth:`backup_partition`.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(f"statemgr:// restores no backups, of {tp} as of others; the changelog has all state")

    def members(self, key: Any) -> tuple[set[Any], Tenure | None]:
        """The set of a key in a table of sets, and whose it is; outside of events nobody's."""
        return members_of(self._get(self._encode_key(key))), self._tenure()

    def set_keys(self) -> Iterator[Any]:
        """Keys of a table of sets, as the table has them."""
        return (self._table._to_key(key) for key in self._keys_decoded())  # noqa: SLF001 - as Faust's recovery does

    def _image(self) -> Image:
        if not isinstance(self.table, SetTable):
            return Values()
        load = self.app.serializers
        return Sets(
            lambda data: load.loads_key(None, data, serializer=self.key_serializer),
            lambda data: load.loads_value(None, data, serializer=self.value_serializer),
            lambda key: self._encode_key(self._table._to_key(key)),  # noqa: SLF001 - as Faust's recovery does
        )

    def _send(self, partition: int | None, key: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        """In the place of the table's ``send_changelog``: the record as it is sent is what the store will take."""
        try:
            self.worker.check()
        except StateError as error:
            raise self._refused(error) from error
        future = self._send_record(partition, key, value, *args, **kwargs)
        message = future.message
        tenure = self.held.tenures.get(message.partition)
        if tenure is not None:
            change = tenure.changes.sent(message.key, message.value)
            self._sent[id(message)] = message, tenure, change
            future.add_done_callback(self._failed)
        return future

    def _told(self, future: Any) -> None:
        """In the place of the table's ``_on_changelog_sent``; with a threaded producer another thread calls it."""
        loop = self.worker.loop
        if asyncio._get_running_loop() is loop:  # noqa: SLF001 - documented for this: None instead of an error
            self._acknowledged(future)
        else:
            loop.call_soon_threadsafe(self._acknowledged, future)

    def _acknowledged(self, future: Any) -> None:
        _, tenure, change = self._sent.pop(id(future.message), (None, None, None))
        if tenure is not None and change is not None:
            said = future.result()
            tenure.changes.acknowledged(change, said.offset, said.timestamp)
            self.worker.acknowledged()

    def _failed(self, future: Any) -> None:
        """A record that Faust could not send; Faust itself only counts it."""
        if future.cancelled() or future.exception() is not None:
            _, tenure, change = self._sent.pop(id(future.message), (None, None, None))
            if tenure is not None and change is not None:
                self.log.error(
                    "a record of changelog %s was not sent, the worker goes on with its value", self.held.topic
                )
                tenure.changes.refused(change)

    def _get(self, key: bytes) -> bytes | None:
        try:
            tenure = self._tenure()
            return self._search(key) if tenure is None else tenure.get(key)
        except StateError as error:
            raise self._refused(error) from error

    def _set(self, key: bytes, value: bytes | None) -> None:
        tenure = self._tenure() or self._home(key)
        if tenure.changes.get(key) != value:
            tenure.changes.local(key, value)
            self.worker.acknowledged()

    def _del(self, key: bytes) -> None:
        tenure = self._tenure()
        for each in self._visible() if tenure is None else [tenure]:
            if each.peek(key) is not None or (not each.complete and each.changes.get(key) is ABSENT):
                each.changes.local(key, None)
                self.worker.acknowledged()

    def _contains(self, key: bytes) -> bool:
        return self._get(key) is not None

    def _iterkeys(self) -> Iterator[bytes]:
        return (key for key, _ in self._iteritems())

    def _itervalues(self) -> Iterator[bytes]:
        return (value for _, value in self._iteritems())

    def _iteritems(self) -> Iterator[tuple[bytes, bytes]]:
        try:
            for tenure in self._visible():
                yield from tenure.items()
        except StateError as error:
            raise self._refused(error) from error

    def _size(self) -> int:
        return sum(1 for _ in self._iteritems())

    def _clear(self) -> None:
        raise NotImplementedError("tables can't be cleared, as with any of Faust's stores on disk")

    def _tenure(self) -> Tenure | None:
        """That of the event which is being processed; None outside of events, and where keys lie in any partition.

        Raises:
            StateUnavailableError: the event's partition is not this worker's any more, or may not be.
        """
        self.worker.check()
        event = current_event()
        if event is None or self.table.is_global or self.table.use_partitioner:
            return None
        tenure = self.held.tenures.get(event.message.partition)
        if tenure is None:
            raise StateUnavailableError(
                f"partition {event.message.partition} of {self.held.topic} is not assigned to this worker"
            )
        return tenure

    def _visible(self) -> list[Tenure]:
        """The partitions that make up the table here."""
        return [each for each in self.held.tenures.values() if each.active or self.table.is_global]

    def _search(self, key: bytes) -> bytes | None:
        visible = self._visible()
        here = next((value for each in visible if (value := each.peek(key)) is not None), None)
        if here is not None:
            return here
        return next((value for each in visible if not each.complete and (value := each.get(key)) is not None), None)

    def _home(self, key: bytes) -> Tenure:
        """The partition of a key that is written outside of an event."""
        visible = self._visible()
        known = (each for each in visible if each.changes.get(key) is not ABSENT or each.peek(key) is not None)
        found = next(known, None) or next(iter(visible), None)
        if found is None:
            raise StateUnavailableError(f"no partition of {self.held.topic} is assigned to this worker")
        return found

    def _refused(self, error: StateError) -> StateError:
        """Let the event be processed again by whoever has its state, and stop this worker where nobody else has."""
        event = current_event()
        if event is not None:
            event.message.incref()  # so that the end of its processing does not acknowledge it
        if event is None or event.message.partition in self.held.tenures:
            self.worker.give_up(error)
        return error


def _check(url: Any, table: Any) -> None:
    if url.host or url.query or url.path.strip("/"):
        raise ImproperlyConfigured(f"store {str(url)!r}: expected just statemgr://; the rest is set in the environment")
    missing = [name for name in ("send_changelog", "_on_changelog_sent") if not hasattr(table, name)]
    if missing:
        raise ImproperlyConfigured(
            f"this version of faust-streaming has no Collection.{missing[0]}, from which the store learns what is "
            "written; use a version that the documentation of statemgr names"
        )
