"""How workers find each other's copies: the records of the topic ``<app id>-statemgr``, and what they say together.

The topic is compacted and has one partition::

    key                          value    written by
    copies/<changelog>/<part.>   Copies   the worker that owns the partition: at every change, and once it has all state
    holder/<name>                Holder   a worker: where its state manager listens

Nothing rests on them: a copy is believed for what it contains and for what the changelog says of it
(:mod:`statemgr.faust.decide`), not because somebody has announced it.
"""

from __future__ import annotations

import logging

import msgspec

from statemgr.control.records import Layer
from statemgr.types import TaskId

log = logging.getLogger(__name__)

MAX_LAYERS = 3
"""Copies of a partition that are asked for what its owner's store lacks, newest first."""


class Copies(msgspec.Struct, frozen=True, tag="copies"):
    """Where the state of a changelog partition lies.

    Attributes:
        topic: the changelog topic.
        partition: its partition.
        generation: of the consumer group when the owner took the partition over.
        copies: the owner's, then those that it still takes state from.
    """

    topic: str
    partition: int
    generation: int
    copies: tuple[Layer, ...]

    @property
    def task(self) -> TaskId:
        """The partition as the state library names it."""
        return TaskId(self.topic, self.partition)


class Holder(msgspec.Struct, frozen=True, tag="holder"):
    """Where the state manager beside some stores listens: ``host:port``."""

    name: str
    address: str


Announcement = Copies | Holder

_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Announcement] = msgspec.json.Decoder(Announcement)


def topic_name(app_id: str) -> str:
    """The topic of an application, as Faust's own id with its version names it."""
    return f"{app_id}-statemgr"


def key_of(record: Announcement) -> bytes:
    """The record's key in the compacted topic."""
    match record:
        case Copies(topic=topic, partition=partition):
            return f"copies/{topic}/{partition}".encode()
        case Holder(name=name):
            return f"holder/{name}".encode()


def encode(record: Announcement) -> bytes:
    """The record's value: JSON."""
    return _ENCODER.encode(record)


class Directory:
    """What the topic says, as far as it has been read.

    Attributes:
        copies: changelog partition → its newest record.
        version: rises with every record.
    """

    def __init__(self) -> None:
        self.copies: dict[TaskId, Copies] = {}
        self.version = 0
        self._addresses: dict[str, str] = {}

    def read(self, value: bytes | None) -> None:
        """Take up the next record; one that can't be understood is left out, since nothing rests on it."""
        self.version += 1
        if not value:
            return
        try:
            record = _DECODER.decode(value)
        except msgspec.MsgspecError as error:
            log.warning("an announcement can't be read and is left out: %s", error)
            return
        match record:
            case Copies():
                self.copies[record.task] = record
            case Holder():
                self._addresses[record.name] = record.address

    def address_of(self, layer: Layer) -> str:
        """The newest known address of a copy's holder; empty: none is known."""
        return self._addresses.get(layer.holder, layer.address)

    def lists(self, task: TaskId, holder: str, epoch: int) -> bool:
        """Whether the newest record of a partition names this copy."""
        record = self.copies.get(task)
        return record is not None and any(each.holder == holder and each.epoch == epoch for each in record.copies)
