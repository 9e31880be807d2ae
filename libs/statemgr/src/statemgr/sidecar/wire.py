"""Requests and answers as messages of the wire, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from statemgr.control.records import Layer
from statemgr.errors import CodecError
from statemgr.migration.ports import Address, Chunk, Description, Found, LookedUp
from statemgr.sidecar.key_filter import KeyFilter
from statemgr.sidecar.reads import Read
from statemgr.sidecar.v1 import statemgr_pb2 as pb
from statemgr.store.base import decode_meta, encode_meta
from statemgr.types import TaskId

_KINDS: dict[Found, int] = {Found.DELETED: 1, Found.ABSENT: 2, Found.UNKNOWN: 3}
_FOUND = {kind: found for found, kind in _KINDS.items()}
_VALUE, _DELETED = 0, 1


def address_message(address: Address, at_least: int) -> pb.Address:
    """An address with the offset that the copy must have reached."""
    task, layer, target = address
    return pb.Address(
        stage=task.stage,
        partition=task.partition,
        holder=layer.holder,
        epoch=layer.epoch,
        target=target,
        at_least=at_least,
    )


def read_address(message: pb.Address) -> tuple[Address, int]:
    """Inverse of :func:`address_message`; the layer's network address is not carried."""
    task = TaskId(message.stage, message.partition)
    return Address(task, Layer(message.holder, message.epoch), message.target), message.at_least


def description_message(description: Description) -> pb.DescribeResponse:
    """A description."""
    layers = (pb.Layer(holder=each.holder, epoch=each.epoch, address=each.address) for each in description.layers)
    return pb.DescribeResponse(
        meta=b"" if description.meta is None else encode_meta(description.meta),
        complete=description.complete,
        layers=layers,
        keys=description.keys,
        bytes=description.bytes,
        beneath=description.beneath,
    )


def read_description(message: pb.DescribeResponse) -> Description:
    """Inverse of :func:`description_message`.

    Raises:
        CodecError: not a description.
    """
    layers = tuple(Layer(each.holder, each.epoch, each.address) for each in message.layers)
    meta = decode_meta(message.meta) if message.meta else None
    return Description(meta, message.complete, layers, message.keys, message.bytes, message.beneath)


def looked_up_message(answer: LookedUp) -> pb.LookUpResponse:
    """An answer to a look-up."""
    kinds, values = _split(answer.found)
    return pb.LookUpResponse(epoch=answer.epoch, offset=answer.offset, found=kinds, values=values)


def read_looked_up(message: pb.LookUpResponse) -> LookedUp:
    """Inverse of :func:`looked_up_message`.

    Raises:
        CodecError: not an answer to a look-up.
    """
    return LookedUp(message.epoch, message.offset, _joined(message.found, message.values))


def chunk_message(chunk: Chunk) -> pb.ChunkResponse:
    """A chunk."""
    return pb.ChunkResponse(
        epoch=chunk.epoch,
        offset=chunk.offset,
        keys=(key for key, _ in chunk.entries),
        found=bytes(_DELETED if value is None else _VALUE for _, value in chunk.entries),
        values=(value for _, value in chunk.entries if value is not None),
        next=chunk.next,
        complete=chunk.complete,
    )


def read_chunk(message: pb.ChunkResponse) -> Chunk:
    """Inverse of :func:`chunk_message`.

    Raises:
        CodecError: not a chunk.
    """
    found = _joined(message.found, message.values)
    if len(found) != len(message.keys):
        raise CodecError(f"a chunk with {len(message.keys)} keys but {len(found)} values")
    values = (each if isinstance(each, bytes) else None for each in found)
    following = message.next if message.HasField("next") else None
    entries = tuple(zip(message.keys, values, strict=True))
    return Chunk(message.epoch, message.offset, entries, following, message.complete)


def filter_message(answer: KeyFilter) -> pb.FilterResponse:
    """A filter of keys."""
    return pb.FilterResponse(
        epoch=answer.epoch, offset=answer.offset, keys=answer.keys, hashes=answer.hashes, bits=answer.bits
    )


def read_filter(message: pb.FilterResponse) -> KeyFilter:
    """Inverse of :func:`filter_message`.

    Raises:
        CodecError: not a filter.
    """
    if not message.bits:
        raise CodecError("a filter of keys without bits")
    return KeyFilter(message.epoch, message.offset, message.keys, message.hashes, message.bits)


def read_message(answer: Read) -> pb.GetResponse:
    """An answer to a read from outside."""
    kinds, values = _split(answer.found)
    return pb.GetResponse(
        epoch=answer.epoch,
        offset=answer.offset,
        found=kinds,
        values=values,
        confirmed=answer.confirmed,
        owner=answer.owner,
    )


def read_read(message: pb.GetResponse) -> Read:
    """Inverse of :func:`read_message`.

    Raises:
        CodecError: not an answer to a read.
    """
    owner = message.owner if message.HasField("owner") else None
    found = _joined(message.found, message.values)
    return Read(message.epoch, message.offset, found, message.confirmed, owner)


def _split(found: Sequence[bytes | Found]) -> tuple[bytes, list[bytes]]:
    kinds = bytes(_VALUE if isinstance(each, bytes) else _KINDS[each] for each in found)
    return kinds, [each for each in found if isinstance(each, bytes)]


def _joined(kinds: bytes, values: Iterable[bytes]) -> tuple[bytes | Found, ...]:
    left = list(values)
    if kinds.count(_VALUE) != len(left) or not set(kinds) <= {_VALUE, *_FOUND}:
        raise CodecError(f"an answer whose {len(kinds)} kinds don't fit its {len(left)} values")
    following = iter(left)
    return tuple(next(following) if kind == _VALUE else _FOUND[kind] for kind in kinds)
