"""The kernels that decode a stage's input and encode its sinks, by format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import polars as pl

from towpath.operators.arrow_frames import ArrowDecoder
from towpath.operators.bytes_rows import BytesDecoder
from towpath.operators.decoded import Decoded
from towpath.operators.json_decode import JsonDecoder
from towpath.query.plan import Format, InputPlan, OutputPlan

if TYPE_CHECKING:  # only stages that need a registry load its client
    from towpath.formats.registry import Registry


class RecordDecoder(Protocol):
    """Records of one batch → frame."""

    def decode(self, values: Sequence[bytes | None], keys: Sequence[bytes | None] = ()) -> Decoded:
        """Values, and keys where the input has a use for them, in the order read."""
        ...


class Refused(NamedTuple):
    """A row that can't be a record of its sink: its place in the frame, and why."""

    place: int
    reason: str


class Encoded(NamedTuple):
    """The records of a frame.

    Attributes:
        values: of the rows that are not refused, in order.
        refused: rows that can't be records, in order.
    """

    values: list[bytes | None]
    refused: list[Refused]


class RecordEncoder(Protocol):
    """Rows of a sink → records with a schema of a registry."""

    def prepare(self) -> None:
        """Make the schema known to the registry; afterwards nothing is asked any more.

        Raises:
            RegistryUnavailableError: there is no answer.
            StageStoppedError: the registry does not take the schema.
        """
        ...

    def encode(self, frame: pl.DataFrame) -> Encoded:
        """One record a row."""
        ...


def decoder_for(source: InputPlan, registry: Registry | None = None) -> RecordDecoder:
    """The decoder of this input.

    Raises:
        ValueError: a column type that no JSON value has; or a registry is needed.
    """
    match source.format:
        case Format.JSON:
            return JsonDecoder(source.schema, source.emit_time, source.key_column)
        case Format.ARROW:
            return ArrowDecoder(source.schema)
        case Format.BYTES:
            return BytesDecoder()
        case Format.AVRO:
            from towpath.formats.avro_decode import AvroDecoder

            return AvroDecoder(source, _needed(registry, source.topic))
        case Format.PROTOBUF:
            from towpath.formats.proto_decode import ProtobufDecoder

            return ProtobufDecoder(source, _needed(registry, source.topic))


def encoder_for(output: OutputPlan, registry: Registry | None, *, register: bool) -> RecordEncoder | None:
    """The encoder of an output whose schema is in a registry; None for any other.

    Raises:
        ValueError: a registry is needed.
    """
    match output.format:
        case Format.AVRO:
            from towpath.formats.avro_encode import AvroEncoder

            return AvroEncoder(output, _needed(registry, output.topic), register=register)
        case Format.PROTOBUF:
            from towpath.formats.proto_encode import ProtobufEncoder

            return ProtobufEncoder(output, _needed(registry, output.topic), register=register)
        case _:
            return None


def _needed(registry: Registry | None, topic: str) -> Registry:
    if registry is None:
        raise ValueError(f"the schemas of topic {topic} are in a registry, and none is given")
    return registry
