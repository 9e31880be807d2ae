"""Announcements: the newest of each key counts, and what can't be read changes nothing."""

from __future__ import annotations

from statemgr.control.records import Layer
from statemgr.faust.records import Copies, Directory, Holder, encode, key_of, topic_name
from statemgr.types import TaskId

TASK = TaskId("app-counts-changelog", 3)


def copies(*layers: Layer, generation: int = 1) -> Copies:
    return Copies(TASK.stage, TASK.partition, generation, layers)


def test_the_newest_record_of_a_partition_counts():
    directory = Directory()
    directory.read(encode(copies(Layer("a", 1))))
    directory.read(encode(copies(Layer("b", 2), Layer("a", 1), generation=2)))
    assert directory.copies[TASK].copies[0].holder == "b"
    assert directory.lists(TASK, "a", 1)
    directory.read(encode(copies(Layer("b", 2), generation=2)))
    assert not directory.lists(TASK, "a", 1)


def test_a_holder_that_moves_is_found_at_its_new_address():
    directory = Directory()
    layer = Layer("a", 1, "old:1")
    assert directory.address_of(layer) == "old:1"
    directory.read(encode(Holder("a", "new:2")))
    assert directory.address_of(layer) == "new:2"


def test_what_cannot_be_read_is_left_out():
    directory = Directory()
    directory.read(encode(copies(Layer("a", 1))))
    for value in (None, b"", b"{", b'{"type":"another"}'):
        directory.read(value)
    assert directory.lists(TASK, "a", 1)
    assert directory.version == 5


def test_each_fact_has_a_key_of_its_own():
    assert key_of(copies()) == b"copies/app-counts-changelog/3"
    assert key_of(Holder("a", "x:1")) == b"holder/a"
    assert topic_name("shop-v2") == "shop-v2-statemgr"
