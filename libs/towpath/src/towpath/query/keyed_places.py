"""Rows that belong together by a key, before the stage is known in which they meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from towpath.query.graph import StageOptions
from towpath.query.place import Place, cut, stage_options
from towpath.query.plan import Edge


@dataclass(frozen=True)
class KeyedPlaces:
    """Where rows are, and what brings them together.

    Attributes:
        places: of the rows, which have the same columns.
        keys: key columns.
        options: of the stage behind the edge; None: the keyed step that comes next names it.
        partitions: of the edge.
    """

    places: tuple[Place, ...]
    keys: tuple[str, ...]
    options: StageOptions | None
    partitions: int

    @property
    def schema(self) -> Mapping[str, Any]:
        """Column → Polars type."""
        return self.places[0].schema

    @property
    def key(self) -> str:
        """The key columns with their types, for messages."""
        return ", ".join(f"{name} {self.schema[name]}" for name in self.keys)

    def label(self, step: str) -> str:
        """What messages call a step that is not placed yet."""
        return f"{step} in stage {self.options.name!r}" if self.options else step

    def enter(self, default_stage: str) -> Place:
        """The stage of the keyed step: that of the rows if they are where they belong, else a new one."""
        if self.options is None and len(self.places) == 1 and self.places[0].placed_by == self.keys:
            return self.places[0]
        return self.gather(self.places, default_stage)

    def gather(self, places: Sequence[Place], default_stage: str) -> Place:
        """A new stage to which edges lead from places that have the key's columns.

        Raises:
            GraphError, QueryError: see :func:`towpath.query.place.cut`.
        """
        options = self.options or stage_options(default_stage, 1, "rocksdb")
        return cut(places, Edge.HASH, self.keys, options, self.partitions)
