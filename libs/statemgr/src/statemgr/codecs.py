"""Values to bytes and back: what a table writes to the changelog and to its store.

Whoever reads a changelog years later has only the bytes, so the codecs are plain: JSON of a declared type, text, or
bytes as they are.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

import msgspec

from statemgr.errors import CodecError

V = TypeVar("V")

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises at bytes that it can't read; the last where they are nested too deep."""


class ValueCodec(Protocol[V]):
    """Encodes the values of one table. None is never encoded: it means absence, a tombstone in the changelog."""

    def encode(self, value: V) -> bytes:
        """The value's bytes.

        Raises:
            CodecError: the value is not of the table's type.
        """
        ...

    def decode(self, data: bytes) -> V:
        """Inverse of ``encode``.

        Raises:
            CodecError: the bytes are not such a value.
        """
        ...


class JsonCodec(Generic[V]):
    """JSON of a declared type: builtins, dataclasses, ``msgspec.Struct``, nested at will."""

    def __init__(self, kind: type[V]) -> None:
        self._kind = kind
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(kind)

    def encode(self, value: V) -> bytes:
        """See :meth:`ValueCodec.encode`; the type itself is checked on decoding only."""
        try:
            return self._encoder.encode(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise CodecError(f"{type(value).__name__} does not encode as JSON of {self._kind}: {error}") from error

    def decode(self, data: bytes) -> V:
        """See :meth:`ValueCodec.decode`."""
        try:
            return self._decoder.decode(data)
        except UNREADABLE as error:
            raise CodecError(f"not JSON of {self._kind}: {error}") from error


class BytesCodec:
    """Bytes as they are."""

    def encode(self, value: bytes) -> bytes:
        """See :meth:`ValueCodec.encode`."""
        if not isinstance(value, bytes):
            raise CodecError(f"a bytes table takes bytes, not {type(value).__name__}")
        return value

    def decode(self, data: bytes) -> bytes:
        """See :meth:`ValueCodec.decode`."""
        return data


def json_codec(type: type[V]) -> ValueCodec[V]:  # noqa: A002 - the word a caller expects
    """A codec for JSON of ``type``.

    Raises:
        CodecError: msgspec can't serialise the type.
    """
    try:
        return JsonCodec(type)
    except TypeError as error:
        raise CodecError(f"{type} has no JSON form: {error}") from error


def bytes_codec() -> ValueCodec[bytes]:
    """A codec for values that are bytes already."""
    return BytesCodec()
