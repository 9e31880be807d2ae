"""Changes reach a store when the changelog has them, in their order; until then they are read from here."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from statemgr.faust.changes import ABSENT, Changes

LIMIT = 1000


def answer(changes: Changes, change, offset: int) -> None:
    changes.acknowledged(change, offset, 0)


def test_a_change_is_read_back_until_the_store_has_it():
    changes = Changes()
    change = changes.sent(b"k", b"1")
    assert changes.get(b"k") == b"1"
    assert changes.take(LIMIT) == []
    answer(changes, change, 7)
    assert changes.take(LIMIT) == [change]
    assert changes.get(b"k") == b"1"
    changes.stored([change])
    assert changes.get(b"k") is ABSENT


def test_a_delete_is_read_back_as_a_delete():
    changes = Changes()
    changes.sent(b"k", None)
    assert changes.get(b"k") is None


def test_the_newest_value_counts_while_older_ones_are_on_their_way():
    changes = Changes()
    first, second = changes.sent(b"k", b"1"), changes.sent(b"k", b"2")
    answer(changes, first, 1)
    changes.stored(changes.take(LIMIT))
    assert changes.get(b"k") == b"2"
    answer(changes, second, 2)
    changes.stored(changes.take(LIMIT))
    assert changes.get(b"k") is ABSENT


def test_a_value_that_comes_back_is_no_reason_to_read_the_older_one_between():
    changes = Changes()
    writes = [changes.sent(b"k", value) for value in (b"1", b"2", b"1")]
    answer(changes, writes[0], 1)
    changes.stored(changes.take(LIMIT))
    answer(changes, writes[1], 2)
    changes.stored(changes.take(LIMIT))
    assert changes.get(b"k") == b"1"


def test_nothing_overtakes_what_is_not_acknowledged():
    changes = Changes()
    first, second = changes.sent(b"a", b"1"), changes.sent(b"b", b"1")
    answer(changes, second, 2)
    assert changes.take(LIMIT) == []
    answer(changes, first, 1)
    assert changes.take(LIMIT) == [first, second]


def test_a_local_change_keeps_its_place():
    changes = Changes()
    logged = changes.sent(b"k", b"1")
    changes.local(b"k", None)
    assert changes.get(b"k") is None
    assert changes.take(LIMIT) == []
    answer(changes, logged, 1)
    assert [each.value for each in changes.take(LIMIT)] == [b"1", None]


def test_a_batch_has_a_limit():
    changes = Changes()
    for number in range(5):
        changes.local(b"%d" % number, b"v")
    assert len(changes.take(3)) == 3


def test_what_could_not_be_sent_never_gets_to_the_store_but_is_read_on():
    """Faust's tables keep a value whose record was refused; a store that is to be a base must not."""
    changes = Changes()
    refused, later = changes.sent(b"k", b"1"), changes.sent(b"other", b"2")
    changes.refused(refused)
    answer(changes, later, 2)
    assert changes.take(LIMIT) == [later]
    assert changes.get(b"k") == b"1"
    assert changes.unanswered == 0


def test_a_later_write_replaces_what_could_not_be_sent():
    changes = Changes()
    changes.refused(changes.sent(b"k", b"1"))
    answer(changes, changes.sent(b"k", b"2"), 3)
    changes.stored(changes.take(LIMIT))
    assert changes.get(b"k") is ABSENT


WRITES = st.lists(st.tuples(st.sampled_from([b"a", b"b"]), st.one_of(st.none(), st.binary(max_size=2))), max_size=12)


@given(writes=WRITES, answered=st.lists(st.integers(0, 3), max_size=12))
def test_reads_are_those_of_a_dict_whenever_acknowledgements_come(writes, answered):
    """Store and changes together always say what a table without delay would."""
    changes, model, store = Changes(), {}, {}
    waiting = []
    for number, (key, value) in enumerate(writes):
        waiting.append(changes.sent(key, value))
        model[key] = value
        for _ in range(answered[number] if number < len(answered) else 0):
            if waiting:
                answer(changes, waiting.pop(0), number)
        batch = changes.take(LIMIT)
        store.update((each.key, each.value) for each in batch)
        changes.stored(batch)
        for each in (b"a", b"b"):
            newer = changes.get(each)
            assert (store.get(each) if newer is ABSENT else newer) == model.get(each)
