from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Found(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VALUE: _ClassVar[Found]
    DELETED: _ClassVar[Found]
    ABSENT: _ClassVar[Found]
    UNKNOWN: _ClassVar[Found]
VALUE: Found
DELETED: Found
ABSENT: Found
UNKNOWN: Found

class Address(_message.Message):
    __slots__ = ("stage", "partition", "holder", "epoch", "target", "at_least")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    stage: str
    partition: int
    holder: str
    epoch: int
    target: int
    at_least: int
    def __init__(self, stage: _Optional[str] = ..., partition: _Optional[int] = ..., holder: _Optional[str] = ..., epoch: _Optional[int] = ..., target: _Optional[int] = ..., at_least: _Optional[int] = ...) -> None: ...

class Layer(_message.Message):
    __slots__ = ("holder", "epoch", "address")
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    holder: str
    epoch: int
    address: str
    def __init__(self, holder: _Optional[str] = ..., epoch: _Optional[int] = ..., address: _Optional[str] = ...) -> None: ...

class DescribeRequest(_message.Message):
    __slots__ = ("address",)
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    address: Address
    def __init__(self, address: _Optional[_Union[Address, _Mapping]] = ...) -> None: ...

class DescribeResponse(_message.Message):
    __slots__ = ("meta", "complete", "layers", "keys", "bytes", "beneath")
    META_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    BENEATH_FIELD_NUMBER: _ClassVar[int]
    meta: bytes
    complete: bytes
    layers: _containers.RepeatedCompositeFieldContainer[Layer]
    keys: int
    bytes: int
    beneath: int
    def __init__(self, meta: _Optional[bytes] = ..., complete: _Optional[bytes] = ..., layers: _Optional[_Iterable[_Union[Layer, _Mapping]]] = ..., keys: _Optional[int] = ..., bytes: _Optional[int] = ..., beneath: _Optional[int] = ...) -> None: ...

class LookUpRequest(_message.Message):
    __slots__ = ("address", "keys")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    address: Address
    keys: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, address: _Optional[_Union[Address, _Mapping]] = ..., keys: _Optional[_Iterable[bytes]] = ...) -> None: ...

class LookUpResponse(_message.Message):
    __slots__ = ("epoch", "offset", "found", "values")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    offset: int
    found: bytes
    values: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, epoch: _Optional[int] = ..., offset: _Optional[int] = ..., found: _Optional[bytes] = ..., values: _Optional[_Iterable[bytes]] = ...) -> None: ...

class HotRequest(_message.Message):
    __slots__ = ("address", "cursor")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    address: Address
    cursor: bytes
    def __init__(self, address: _Optional[_Union[Address, _Mapping]] = ..., cursor: _Optional[bytes] = ...) -> None: ...

class BinsRequest(_message.Message):
    __slots__ = ("address", "first", "last", "cursor")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    address: Address
    first: int
    last: int
    cursor: bytes
    def __init__(self, address: _Optional[_Union[Address, _Mapping]] = ..., first: _Optional[int] = ..., last: _Optional[int] = ..., cursor: _Optional[bytes] = ...) -> None: ...

class ChunkResponse(_message.Message):
    __slots__ = ("epoch", "offset", "keys", "found", "values", "next", "complete")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    offset: int
    keys: _containers.RepeatedScalarFieldContainer[bytes]
    found: bytes
    values: _containers.RepeatedScalarFieldContainer[bytes]
    next: bytes
    complete: bool
    def __init__(self, epoch: _Optional[int] = ..., offset: _Optional[int] = ..., keys: _Optional[_Iterable[bytes]] = ..., found: _Optional[bytes] = ..., values: _Optional[_Iterable[bytes]] = ..., next: _Optional[bytes] = ..., complete: _Optional[bool] = ...) -> None: ...

class FilterRequest(_message.Message):
    __slots__ = ("address",)
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    address: Address
    def __init__(self, address: _Optional[_Union[Address, _Mapping]] = ...) -> None: ...

class FilterResponse(_message.Message):
    __slots__ = ("epoch", "offset", "keys", "hashes", "bits")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    HASHES_FIELD_NUMBER: _ClassVar[int]
    BITS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    offset: int
    keys: int
    hashes: int
    bits: bytes
    def __init__(self, epoch: _Optional[int] = ..., offset: _Optional[int] = ..., keys: _Optional[int] = ..., hashes: _Optional[int] = ..., bits: _Optional[bytes] = ...) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("stage", "partition", "table", "keys")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    stage: str
    partition: int
    table: int
    keys: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, stage: _Optional[str] = ..., partition: _Optional[int] = ..., table: _Optional[int] = ..., keys: _Optional[_Iterable[bytes]] = ...) -> None: ...

class GetResponse(_message.Message):
    __slots__ = ("epoch", "offset", "found", "values", "confirmed", "owner")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    offset: int
    found: bytes
    values: _containers.RepeatedScalarFieldContainer[bytes]
    confirmed: bool
    owner: str
    def __init__(self, epoch: _Optional[int] = ..., offset: _Optional[int] = ..., found: _Optional[bytes] = ..., values: _Optional[_Iterable[bytes]] = ..., confirmed: _Optional[bool] = ..., owner: _Optional[str] = ...) -> None: ...
