"""Tables of sets: their changelog says what was added and taken away, their store has whole sets.

Faust keeps every set of such a table in memory, writes them to the store by a timer, and reads them all back after each
recovery. Here the store follows the changelog like that of any other table, and a set is read when it is used first,
from a former owner if it is still there. It is JSON in the store: a list of its members.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from faust.models import maybe_model
from faust.streams import current_event
from faust.tables.sets import OPERATION_ADD, OPERATION_DISCARD, OPERATION_UPDATE, ChangeloggedSetManager

from statemgr.errors import CodecError
from statemgr.faust.images import Known, Record, Values, store_key
from statemgr.faust.tenure import Tenure
from statemgr.store.base import Entry

Decode = Callable[[bytes], Any]

Members = dict[str, Any]
"""A member's JSON → the member as JSON gives it; so that members need not be hashable."""


class Sets(Values):
    """Records of changes of sets become entries that are whole sets.

    Args:
        load_key: decodes a record's key: an operation and the key of a set.
        load_value: decodes a record's value: a member, or those added and those removed.
        dump_key: encodes a set's key as the table does.
    """

    adds = True

    def __init__(self, load_key: Decode, load_value: Decode, dump_key: Callable[[Any], bytes]) -> None:
        self._load_key = load_key
        self._load_value = load_value
        self._dump_key = dump_key

    def entries(self, records: Sequence[Record], known: Known) -> list[Entry]:
        """See :class:`statemgr.faust.images.Image`."""
        changes = [self._read(each) for each in records]
        wanted = list(dict.fromkeys(key for key, _, _ in changes))
        sets = dict(zip(wanted, map(_members, known(wanted)), strict=True))
        for key, operation, value in changes:
            _change(sets[key], operation, value)
        return [(key, _dump(members)) for key, members in sets.items()]

    def _read(self, record: Record) -> tuple[bytes, int, Any]:
        if record.value is None:
            raise CodecError(f"a record of a table of sets at offset {record.offset} has no value")
        operation, key = self._load_key(record.key)
        return store_key(self._dump_key(key)), operation, self._load_value(record.value)


class SetStates(ChangeloggedSetManager):
    """In the place of the object that Faust keeps a table's sets in.

    Args:
        table: the table.
        storage: its :class:`statemgr.faust.store.Store`.
    """

    def __init__(self, table: Any, storage: Any, **kwargs: Any) -> None:
        super().__init__(table, **kwargs)
        self._storage = storage
        self._states: Any = storage
        self._homes: dict[Any, Tenure | None] = {}

    def send_changelog_event(self, key: Any, operation: int, value: Any) -> None:
        """A set changes: the record says how, and the store follows it."""
        self.table._send_changelog(current_event(), (operation, key), value)  # noqa: SLF001 - as the class above does

    def __getitem__(self, key: Any) -> Any:
        found = self.data.get(key)
        if found is None:
            members, home = self._states.members(key)
            found = self.data[key] = self.ValueType(self, key)
            found.sync_from_storage(members)
            self._homes[key] = home
        return found

    def __contains__(self, key: Any) -> bool:
        return key in self.data or key in self._states

    def __iter__(self) -> Iterator[Any]:
        yield from self.data
        yield from [key for key in self._states.set_keys() if key not in self.data]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def keys(self) -> Any:
        """All keys."""
        return dict.fromkeys(self).keys()

    def values(self) -> Any:
        """All sets."""
        return {key: self[key] for key in list(self)}.values()

    def items(self) -> Any:
        """All keys with their sets."""
        return {key: self[key] for key in list(self)}.items()

    def apply_changelog_batch(self, batch: Iterable[Any], to_key: Any, to_value: Any) -> None:
        """What Faust's recovery has read of the changelog; no set is in use then."""
        self._forget(lambda _: True)
        self._states.apply_changelog_batch(batch, to_key, to_value)

    async def on_rebalance(  # type: ignore[override]  # Faust calls it so, whatever the class above says
        self, assigned: Any, revoked: Any, newly_assigned: Any, generation_id: int = 0
    ) -> None:
        """The group has given partitions; sets of those that have left are forgotten."""
        await self._states.on_rebalance(assigned, revoked, newly_assigned, generation_id)
        held = set(map(id, self._states.held.tenures.values()))
        self._forget(lambda home: id(home) not in held)

    async def on_recovery_completed(self, active_tps: Any, standby_tps: Any) -> None:
        """Nothing: sets are read when they are used."""

    def _forget(self, choose: Callable[[Tenure | None], bool]) -> None:
        for key in [key for key, home in self._homes.items() if choose(home)]:
            del self._homes[key], self.data[key]


def members_of(value: bytes | None) -> set[Any]:
    """A stored set as Faust has it."""
    return {_hashable(each) for each in _members(value).values()}


def _members(value: bytes | None) -> Members:
    return {} if value is None else {_identity(each): each for each in json.loads(value)}


def _dump(members: Members) -> bytes | None:
    return json.dumps(list(members.values()), separators=(",", ":")).encode() if members else None


def _change(members: Members, operation: int, value: Any) -> None:
    if operation == OPERATION_ADD:
        added, removed = [value], []
    elif operation == OPERATION_DISCARD:
        added, removed = [], [value]
    elif operation == OPERATION_UPDATE:
        added, removed = value
    else:
        raise CodecError(f"a record of a table of sets has the unknown operation {operation}")
    members.update((_identity(each), each) for each in added)
    for each in removed:
        members.pop(_identity(each), None)


def _identity(member: Any) -> str:
    return json.dumps(member, sort_keys=True, separators=(",", ":"))


def _hashable(member: Any) -> Any:
    return tuple(map(_hashable, member)) if isinstance(member, list) else maybe_model(member)
