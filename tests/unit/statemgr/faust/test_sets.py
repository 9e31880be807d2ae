"""Tables of sets: records say what was added and taken away, the store has whole sets."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemgr.errors import CodecError
from statemgr.faust.images import Record, store_key

sets = pytest.importorskip("statemgr.faust.sets")

ADD, DISCARD, UPDATE = 1, 2, 15


def dump(key: object) -> bytes:
    return json.dumps(key).encode()


IMAGE = sets.Sets(json.loads, json.loads, dump)


def record(operation: int, key: object, value: object) -> Record:
    return Record(dump([operation, key]), dump(value), 0, 0)


def apply(store: dict[bytes, bytes], records: list[Record]) -> None:
    for key, value in IMAGE.entries(records, lambda keys: list(map(store.get, keys))):
        if value is None:
            store.pop(key, None)
        else:
            store[key] = value


def members(store: dict[bytes, bytes], key: object) -> set:
    return sets.members_of(store.get(store_key(dump(key))))


def test_records_add_to_what_the_store_has():
    store: dict[bytes, bytes] = {}
    apply(store, [record(ADD, "k", 1), record(ADD, "k", 2), record(ADD, "l", 1)])
    apply(store, [record(DISCARD, "k", 1), record(UPDATE, "k", [[3, 4], [2]])])
    assert members(store, "k") == {3, 4}
    assert members(store, "l") == {1}


def test_an_empty_set_takes_no_room():
    store: dict[bytes, bytes] = {}
    apply(store, [record(ADD, "k", 1)])
    apply(store, [record(DISCARD, "k", 1)])
    assert store == {}
    assert members(store, "k") == set()


def test_members_that_are_lists_are_tuples_for_faust():
    store: dict[bytes, bytes] = {}
    apply(store, [record(ADD, ["k", [0, 10]], ["a", 1])])
    assert members(store, ["k", [0, 10]]) == {("a", 1)}


@pytest.mark.parametrize("bad", [Record(dump([9, "k"]), b"1", 0, 0), Record(dump([ADD, "k"]), None, 3, 0)])
def test_what_is_no_record_of_a_set_is_an_error(bad):
    with pytest.raises(CodecError):
        apply({}, [bad])


MEMBERS = st.sampled_from([1, 2, "x", True])
CHANGES = st.lists(st.tuples(st.sampled_from([ADD, DISCARD]), st.sampled_from(["k", "l"]), MEMBERS), max_size=20)


@given(changes=CHANGES, cuts=st.sets(st.integers(0, 20)))
def test_batches_do_not_matter(changes, cuts):
    """The store follows the records, however they are cut into batches."""
    store: dict[bytes, bytes] = {}
    model: dict[str, dict[str, object]] = {"k": {}, "l": {}}
    batch: list[Record] = []
    for number, (operation, key, member) in enumerate(changes):
        batch.append(record(operation, key, member))
        if operation == ADD:
            model[key][json.dumps(member)] = member
        else:
            model[key].pop(json.dumps(member), None)
        if number in cuts:
            apply(store, batch)
            batch = []
    apply(store, batch)
    for key, expected in model.items():
        found = store.get(store_key(dump(key)), b"[]")
        assert sorted(map(json.dumps, json.loads(found))) == sorted(expected)
