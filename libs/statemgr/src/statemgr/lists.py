"""Lists in a task's state: an append writes what is new, and not the list.

::

    head    key           →  [begin, end, newest rows, note]    the only entry of a short list
    chunk   key + number  →  rows                               begin … end - 1; once it is written, rows only leave it

    append ──▶ fewer than CHUNK_ROWS newest rows: they are in the head
           └─▶ else: all of these leave it, as chunk ``end`` and those behind it

Chunks are entries like any others, so that changelog, stores and moves need not know of lists; a chunk is in the bin of
its list (:func:`statemgr.layout.chunk_keys`), so that a bin that is complete has whole lists. A list is found without a
scan: its head says which chunks there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, Generic, TypeVar, cast

import msgspec

from statemgr.codecs import ValueCodec, json_codec
from statemgr.layout import changelog_key, chunk_keys
from statemgr.store.base import Store
from statemgr.table import TableSpec, ValueTable

R = TypeVar("R")
N = TypeVar("N")

Chunk = tuple[bytes, list[R]]
"""What a chunk is called, and its rows; none: it is gone."""

CHUNK_ROWS = 8
"""Rows at which the newest ones become a chunk. A row that comes alone is written with the newest ones before it, four
on average, and once with its chunk; a list that is fetched is an eighth as many keys as it has rows."""

MOST_ROWS = 64
"""Most rows of a chunk, where many come at once: 64 KB at 1 KB each, a fifteenth of what a changelog record holds."""

SPARSE = 2
"""With fewer rows than that for each number from ``begin`` to ``end``, what is left of a list is written anew: chunks
had four times as many on average, so this costs a third of a row for each that went, and holes do not pile up."""


class ListHead(msgspec.Struct, Generic[R, N], array_like=True, frozen=True, gc=False):
    """What is under a list's key.

    Attributes:
        begin: number of the first chunk; those behind it may be gone, too.
        end: number of the next chunk.
        rows: the newest rows.
        note: something small that is known of the list as a whole.
    """

    begin: int = 0
    end: int = 0
    rows: list[R] = msgspec.field(default_factory=list)
    note: N | None = None

    @property
    def short(self) -> bool:
        """Whether all of its rows are here."""
        return self.begin == self.end


def head_codec(row: Any, note: Any) -> ValueCodec[ListHead[Any, Any]]:
    """JSON of heads with rows and notes of these types.

    Raises:
        CodecError: one of them has no JSON form.
    """
    return json_codec(cast(Any, ListHead)[row, note])


NO_LIST: ListHead[Any, Any] = ListHead()
"""What a key without a list is taken for."""


def appended(head: ListHead[R, N], rows: Iterable[R], note: N | None) -> tuple[ListHead[R, N], list[list[R]]]:
    """A head with more rows and this note, and the chunks that leave it, from ``head.end`` on."""
    newest = [*head.rows, *rows]
    if len(newest) < CHUNK_ROWS:
        return ListHead(head.begin, head.end, newest, note), []
    chunks = [newest[first : first + MOST_ROWS] for first in range(0, len(newest), MOST_ROWS)]
    return ListHead(head.begin, head.end + len(chunks), [], note), chunks


class ListTable(Generic[R, N]):
    """Key → list of rows, and a note of it; made by :class:`statemgr.state.TaskState`.

    A list without rows and note is none. Rows and notes belong to the table once they are put.

    Args:
        spec: with a codec for chunks; ``spec.codec`` is that of :func:`head_codec`.
        store: of the task.
        cache_entries: of each of the two tables.

    Attributes:
        heads: key → :class:`ListHead`; None: no list.
        chunks: their older rows.
    """

    def __init__(self, spec: TableSpec[ListHead[R, N]], store: Store, cache_entries: int) -> None:
        self.heads: ValueTable[ListHead[R, N]] = ValueTable(spec, store, cache_entries)
        self.chunks: ValueTable[list[R]] = ValueTable(spec.of_chunks, store, cache_entries)
        self._prefix = changelog_key(spec.id, b"")

    def get_many(self, keys: Sequence[bytes]) -> list[list[R]]:
        """The rows of lists, oldest first.

        Raises:
            MissingStateError: a part of a list is still elsewhere; see :meth:`statemgr.state.TaskState.unresolved`.
            CorruptStoreError, CodecError: see :meth:`statemgr.table.ValueTable.get_many`.
        """
        self.heads.note_use(keys)
        heads = self._heads(keys)
        rows = [head.rows for head in heads]
        for at, chunks in self._chunks(keys, heads).items():
            rows[at] = [*chain.from_iterable(chunk for _, chunk in chunks), *rows[at]]
        return rows

    def append_many(
        self, keys: Sequence[bytes], rows: Sequence[Sequence[R]], notes: Sequence[N | None] | None = None
    ) -> None:
        """Append rows to lists; older rows are not looked at.

        Args:
            keys: each once.
            rows: those of each key, oldest first; none is fine.
            notes: new note of each key; without, notes stay.
        """
        heads = self._heads(keys)
        if notes is None:
            notes = [head.note for head in heads]
        self._put(keys, [self._appended(*each) for each in zip(keys, heads, rows, notes, strict=True)])

    def replace_many(self, keys: Sequence[bytes], rows: Sequence[Sequence[R]], notes: Sequence[N | None]) -> None:
        """Set lists to these rows and notes; older rows are not looked at. Each key once."""
        heads = self._heads(keys)
        self._put(keys, [self._replaced(*each) for each in zip(keys, heads, rows, notes, strict=True)])

    def retain_many(
        self,
        keys: Sequence[bytes],
        keep: Callable[[R], bool],
        noted: Callable[[bytes, list[R]], N | None] | None = None,
    ) -> None:
        """Drop rows of lists; chunks without such rows are not written.

        Args:
            keys: each once.
            keep: which rows are to stay.
            noted: key and rows that are left → new note; without, notes stay.
        """
        self.heads.note_use(keys)
        heads = self._heads(keys)
        chunks = self._chunks(keys, heads)
        after: list[ListHead[R, N]] = []
        for at, (key, head) in enumerate(zip(keys, heads, strict=True)):
            newest = list(filter(keep, head.rows))
            if head.short:
                begin, left = head.begin, newest
            else:
                begin, left = self._retained(head, chunks[at], newest, keep)
            note = head.note if noted is None else noted(key, left)
            if len(left) < SPARSE * (head.end - begin):
                after.append(self._replaced(key, head, left, note))
            elif (begin, len(newest), note) == (head.begin, len(head.rows), head.note):
                after.append(head)
            else:
                after.append(ListHead(begin, head.end, newest, note))
        changed = [at for at, head in enumerate(after) if head is not heads[at]]
        self._put([keys[at] for at in changed], [after[at] for at in changed])

    def note_many(self, keys: Sequence[bytes], notes: Sequence[N | None]) -> None:
        """Set the notes of lists; each key once."""
        self.append_many(keys, [()] * len(keys), notes)

    def delete_many(self, keys: Sequence[bytes]) -> None:
        """Delete lists, with a tombstone for each of their entries; each key once."""
        self.replace_many(keys, [()] * len(keys), [None] * len(keys))

    def chunk_keys(self, key: bytes, head: ListHead[R, N] | None) -> list[bytes]:
        """What the chunks of a list are called in :attr:`chunks`; holes among them are, too."""
        if head is None or head.short:
            return []
        return self._numbered(key, range(head.begin, head.end))

    def _numbered(self, key: bytes, numbers: Iterable[int]) -> list[bytes]:
        skip = len(self._prefix)
        return [full[skip:] for full in chunk_keys(self._prefix + key, numbers)]

    def _heads(self, keys: Sequence[bytes]) -> list[ListHead[R, N]]:
        return [head or NO_LIST for head in self.heads.peek_many(keys)]

    def _chunks(self, keys: Sequence[bytes], heads: Sequence[ListHead[R, N]]) -> dict[int, list[Chunk[R]]]:
        """Chunks of lists that are not short, by their place; those that are gone, too."""
        owned = {at: self.chunk_keys(keys[at], head) for at, head in enumerate(heads) if not head.short}
        wanted = list(chain.from_iterable(owned.values()))
        found = dict(zip(wanted, self.chunks.get_many(wanted) if wanted else (), strict=True))
        return {at: [(name, found[name] or []) for name in names] for at, names in owned.items()}

    def _appended(self, key: bytes, head: ListHead[R, N], rows: Sequence[R], note: N | None) -> ListHead[R, N]:
        """The head after an append, whose chunks are put."""
        if len(head.rows) + len(rows) < CHUNK_ROWS:
            return ListHead(head.begin, head.end, [*head.rows, *rows], note)
        after, chunks = appended(head, rows, note)
        self.chunks.put_many(self._numbered(key, range(head.end, after.end)), chunks)
        return after

    def _replaced(self, key: bytes, head: ListHead[R, N], rows: Sequence[R], note: N | None) -> ListHead[R, N]:
        """The head of a list that begins anew, and whose chunks are put.

        Numbers go on, so that no chunk is deleted and written at once.
        """
        if head.end == 0:
            return self._appended(key, NO_LIST, rows, note)
        for chunk in self.chunk_keys(key, head):
            self.chunks.delete(chunk)
        return self._appended(key, ListHead(head.end, head.end), rows, note)

    def _retained(
        self, head: ListHead[R, N], chunks: list[Chunk[R]], newest: list[R], keep: Callable[[R], bool]
    ) -> tuple[int, list[R]]:
        """Put chunks of which rows go; gives the number of the first that is left, and all rows that are."""
        kept = [list(filter(keep, rows)) for _, rows in chunks]
        for (name, before), rows in zip(chunks, kept, strict=True):
            if len(rows) < len(before):
                self.chunks.put(name, rows or None)
        gone = next((place for place, rows in enumerate(kept) if rows), len(kept))
        return head.begin + gone, [*chain.from_iterable(kept), *newest]

    def _put(self, keys: Sequence[bytes], heads: Sequence[ListHead[R, N]]) -> None:
        self.heads.put_many(
            keys, [head if head.rows or head.note is not None or not head.short else None for head in heads]
        )
