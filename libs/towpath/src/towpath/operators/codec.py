"""The kernel that decodes a stage's input, by format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from towpath.operators.arrow_frames import ArrowDecoder
from towpath.operators.bytes_rows import BytesDecoder
from towpath.operators.json_decode import Decoded, JsonDecoder
from towpath.query.plan import Format, InputPlan


class RecordDecoder(Protocol):
    """Records of one batch → frame."""

    def decode(self, values: Sequence[bytes | None], keys: Sequence[bytes | None] = ()) -> Decoded:
        """Values, and keys where the input has a use for them, in the order read."""
        ...


def decoder_for(source: InputPlan) -> RecordDecoder:
    """The decoder of this input.

    Raises:
        ValueError: a column type that no JSON value has.
    """
    match source.format:
        case Format.JSON:
            return JsonDecoder(source.schema, source.emit_time, source.key_column)
        case Format.ARROW:
            return ArrowDecoder(source.schema)
        case Format.BYTES:
            return BytesDecoder()
