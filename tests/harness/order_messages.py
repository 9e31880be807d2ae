"""Protobuf messages as ``protoc`` would generate them, made without it.

::

    syntax = "proto3"; package shop;
    enum State { OPEN = 0; PAID = 1; }
    message Order { string customer = 1; int64 amount = 2; optional double rate = 3; State state = 4;
                    repeated int32 items = 5; bytes note = 6; uint64 id = 7; Line first = 8; int64 sched_ms = 9; }
    message Line { int32 article = 1; }
    message Total { string customer = 1; int64 count = 2; }
"""

from __future__ import annotations

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

_F = FieldDescriptorProto


def _field(message: DescriptorProto, number: int, name: str, kind: int, **more: object) -> None:
    field = message.field.add(name=name, number=number, type=kind, label=_F.LABEL_OPTIONAL)  # type: ignore[arg-type]
    for key, value in more.items():
        setattr(field, key, value)


def _file() -> FileDescriptorProto:
    file = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    state = file.enum_type.add(name="State")
    for number, name in enumerate(("OPEN", "PAID")):
        state.value.add(name=name, number=number)
    order = file.message_type.add(name="Order")
    _field(order, 1, "customer", _F.TYPE_STRING)
    _field(order, 2, "amount", _F.TYPE_INT64)
    order.oneof_decl.add(name="_rate")
    _field(order, 3, "rate", _F.TYPE_DOUBLE, proto3_optional=True, oneof_index=0)
    _field(order, 4, "state", _F.TYPE_ENUM, type_name=".shop.State")
    _field(order, 5, "items", _F.TYPE_INT32, label=_F.LABEL_REPEATED)
    _field(order, 6, "note", _F.TYPE_BYTES)
    _field(order, 7, "id", _F.TYPE_UINT64)
    _field(order, 8, "first", _F.TYPE_MESSAGE, type_name=".shop.Line")
    _field(order, 9, "sched_ms", _F.TYPE_INT64)
    line = file.message_type.add(name="Line")
    _field(line, 1, "article", _F.TYPE_INT32)
    total = file.message_type.add(name="Total")
    _field(total, 1, "customer", _F.TYPE_STRING)
    _field(total, 2, "count", _F.TYPE_INT64)
    return file


FILE = _file()
DESCRIPTORS = FileDescriptorSet(file=[FILE])
_POOL = DescriptorPool()
_POOL.Add(FILE)

Order: type[Message] = GetMessageClass(_POOL.FindMessageTypeByName("shop.Order"))
Line: type[Message] = GetMessageClass(_POOL.FindMessageTypeByName("shop.Line"))
Total: type[Message] = GetMessageClass(_POOL.FindMessageTypeByName("shop.Total"))
