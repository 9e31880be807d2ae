"""What a query says of the records of a topic whose schemas are in a registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.protobuf.message import Message


@dataclass(frozen=True)
class Avro:
    """Records in Avro.

    Attributes:
        record: full name of a sink's record, such as ``shop.Total``; None: made from the topic's name.
        defaults: field → value that a source's rows get from records whose schema lacks the field.
    """

    record: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Protobuf:
    """Records that are messages of one Protobuf type."""

    message: type[Message]


Declared = Avro | Protobuf
