"""Rows of a key merged before they cross an edge to a stage that counts them: the first of two phases.

A batch of NEXMark bids has a few hundred distinct auctions in 20,000 rows, so that what is hashed, encoded, sent, read
and grouped again behind the edge shrinks by as much. Known as local aggregation or as a combiner: Dean and Ghemawat,
"MapReduce: Simplified Data Processing on Large Clusters", OSDI 2004, section 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from towpath.operators.weights import emit_times, events, weight
from towpath.query.plan import EVENTS, PARTITION, ROWS, OperatorContext

LEAST_ROWS = 512
"""Smaller frames go on as they are: grouping one takes 0.2 ms whatever its size, and would be paid in latency."""

WORTH_SHARE = 0.5
"""Groups for a row, above which merging costs more than it saves."""

FRAMES_BETWEEN = 16
"""After a frame of mostly distinct keys, so many go on as they are before the next attempt."""


class Combine:
    """Merges the rows of a batch that have the same key; ``__rows`` says how many one stands for.

    Only for what goes by this key, to an operator that knows ``__rows``. Which rows are merged depends on batching,
    their sums do not.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        """``keys``: columns; the others are dropped."""
        self._keys = list(keys)
        self._left_alone = 0

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:  # noqa: ARG002
        """Rows → at most as many; order of first appearance."""
        if self._left_alone:
            self._left_alone -= 1
            return frame
        if frame.height < LEAST_ROWS:
            return frame
        merged = frame.group_by(self._keys, maintain_order=True).agg(self._merged(frame))
        if merged.height > WORTH_SHARE * frame.height:
            self._left_alone = FRAMES_BETWEEN
        return merged

    @property
    def merger(self) -> Combine:
        """See :class:`towpath.operators.merging.Merging`."""
        return self

    def _merged(self, frame: pl.DataFrame) -> list[pl.Expr]:
        columns = [weight(frame).alias(ROWS)]
        if PARTITION not in self._keys:
            columns.append(pl.col(PARTITION).first())
        if EVENTS in frame.columns:
            columns.append(events(frame).alias(EVENTS))
        return columns + emit_times(frame)
