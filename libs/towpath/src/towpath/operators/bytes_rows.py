"""Records as they are, one row each: the form in which event-at-a-time code receives and sends them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from towpath.operators.decoded import Decoded
from towpath.query.plan import KEY_COLUMN, VALUE_COLUMN


class BytesDecoder:
    """Gives keys and values as Binary columns; no record is poison at this level."""

    def decode(self, values: Sequence[bytes | None], keys: Sequence[bytes | None] = ()) -> Decoded:
        """One row a record; without ``keys`` every key is null."""
        frame = pl.DataFrame(
            [
                pl.Series(KEY_COLUMN, list(keys) or [None] * len(values), dtype=pl.Binary),
                pl.Series(VALUE_COLUMN, list(values), dtype=pl.Binary),
            ]
        )
        return Decoded(frame, np.ones(len(values), np.int64), [])


def encode_bytes(frame: pl.DataFrame) -> tuple[list[bytes | None], list[bytes | None]]:
    """Keys and values of the records, in row order."""
    return frame.get_column(KEY_COLUMN).to_list(), frame.get_column(VALUE_COLUMN).to_list()
